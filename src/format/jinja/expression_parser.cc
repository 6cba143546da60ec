#include "format/jinja/expression_parser.h"

#include <algorithm>

#include "base/utf8.h"

namespace soli::jinja {
namespace {

Value constant_text(std::string text) { return Value(std::make_shared<const Text>(std::move(text))); }

}  // namespace

ExpressionPtr ExpressionParser::make(Kind kind, uint32_t line) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  return node;
}

/// Sets the height of a node from its parts, and keeps it in bounds.
Result<ExpressionPtr> ExpressionParser::finish(ExpressionPtr node) const {
  for (const ExpressionPtr& operand : node->operands) {
    if (operand != nullptr) node->height = std::max(node->height, operand->height + 1);
  }
  if (node->height > kMaxNesting) {
    return fail_at(node->line, ErrorKind::kLimit, "an expression nests deeper than the {} levels allowed",
                   kMaxNesting);
  }
  return node;
}

// The functions below call themselves for every level of nesting. They are small and never inlined into one
// another, so that kMaxNesting levels fit a small stack.

Result<ExpressionPtr> ExpressionParser::expression() {
  const NestingGuard guard(depth_);
  SOLI_RETURN_IF_ERROR(guard.check(tokens_.line()));
  Result<ExpressionPtr> value = binary(Level::kOr);
  while (value && tokens_.is_name("if")) value = condition(*std::move(value));
  return value;
}

/// value if condition else other
Result<ExpressionPtr> ExpressionParser::condition(ExpressionPtr value) {
  ExpressionPtr node = make(Kind::kCondition, tokens_.take().line);
  node->operands.resize(3);
  node->operands[1] = std::move(value);
  SOLI_ASSIGN_OR_RETURN(node->operands[0], binary(Level::kOr));
  if (tokens_.take_name("else")) {
    SOLI_ASSIGN_OR_RETURN(node->operands[2], expression());
  }
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::without_condition() {
  const NestingGuard guard(depth_);
  SOLI_RETURN_IF_ERROR(guard.check(tokens_.line()));
  return binary(Level::kOr);
}

Result<ExpressionPtr> ExpressionParser::tuple(bool with_condition) {
  const uint32_t line = tokens_.line();
  Result<ExpressionPtr> item = with_condition ? expression() : without_condition();
  if (!item || !tokens_.is_operator(",")) return item;
  ExpressionPtr node = make(Kind::kTuple, line);
  node->operands.push_back(*std::move(item));
  while (tokens_.take_operator(",")) {
    if (tokens_.is(Token::Kind::kTagEnd) || tokens_.is(Token::Kind::kPrintEnd) || tokens_.is_operator(")"))
      break;
    item = with_condition ? expression() : without_condition();
    if (!item) return item;
    node->operands.push_back(*std::move(item));
  }
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::negation() {
  const NestingGuard guard(depth_);
  SOLI_RETURN_IF_ERROR(guard.check(tokens_.line()));
  ExpressionPtr node = make(Kind::kNot, tokens_.take().line);
  node->operands.resize(1);
  SOLI_ASSIGN_OR_RETURN(node->operands[0], binary(Level::kNot));
  return finish(std::move(node));
}

struct ExpressionParser::Operator {
  Token::Kind token;
  std::string_view text;
  Level level;
  Kind kind;
  BinaryOperator binary = {};
  Comparison comparison = {};
};

/// The operator that stands here, if one does.
bool ExpressionParser::find_operator(Operator& found) const {
  constexpr auto kSign = Token::Kind::kOperator, kWord = Token::Kind::kName;
  constexpr BinaryOperator kNone = {};
  constexpr Operator kOperators[] = {
      {kWord, "or", Level::kOr, Kind::kOr},
      {kWord, "and", Level::kAnd, Kind::kAnd},
      {kSign, "==", Level::kCompare, Kind::kCompare, kNone, Comparison::kEqual},
      {kSign, "!=", Level::kCompare, Kind::kCompare, kNone, Comparison::kNotEqual},
      {kSign, "<", Level::kCompare, Kind::kCompare, kNone, Comparison::kLess},
      {kSign, "<=", Level::kCompare, Kind::kCompare, kNone, Comparison::kLessEqual},
      {kSign, ">", Level::kCompare, Kind::kCompare, kNone, Comparison::kGreater},
      {kSign, ">=", Level::kCompare, Kind::kCompare, kNone, Comparison::kGreaterEqual},
      {kWord, "in", Level::kCompare, Kind::kCompare, kNone, Comparison::kIn},
      {kWord, "not", Level::kCompare, Kind::kCompare, kNone, Comparison::kNotIn},  // with `in` after it
      {kSign, "+", Level::kSum, Kind::kChain, BinaryOperator::kAdd},
      {kSign, "-", Level::kSum, Kind::kChain, BinaryOperator::kSubtract},
      {kSign, "~", Level::kConcat, Kind::kConcat},
      {kSign, "*", Level::kProduct, Kind::kChain, BinaryOperator::kMultiply},
      {kSign, "/", Level::kProduct, Kind::kChain, BinaryOperator::kDivide},
      {kSign, "//", Level::kProduct, Kind::kChain, BinaryOperator::kFloorDivide},
      {kSign, "%", Level::kProduct, Kind::kChain, BinaryOperator::kModulo},
      {kSign, "**", Level::kPower, Kind::kChain, BinaryOperator::kPower}};
  for (const Operator& candidate : kOperators) {
    if (!tokens_.is(candidate.token) || tokens_.now().text != candidate.text) continue;
    const Token& next = tokens_.next();
    if (candidate.comparison == Comparison::kNotIn && (next.kind != kWord || next.text != "in")) return false;
    found = candidate;
    return true;
  }
  return false;
}

/// Takes the operator, and the operand to its right.
Status ExpressionParser::operand(Expression& node, const Operator& op) {
  tokens_.take();
  if (op.kind == Kind::kCompare) {
    if (op.comparison == Comparison::kNotIn) tokens_.take();
    node.comparisons.push_back(op.comparison);
  }
  if (op.kind == Kind::kChain) node.operators.push_back(op.binary);
  SOLI_ASSIGN_OR_RETURN(ExpressionPtr right, binary(static_cast<Level>(static_cast<int>(op.level) + 1)));
  node.operands.push_back(std::move(right));
  return {};
}

/// An operand with all operators after it that bind at least so closely. Operators of one level make one
/// node.
Result<ExpressionPtr> ExpressionParser::binary(Level least) {
  Result<ExpressionPtr> left = least <= Level::kNot && tokens_.is_name("not") ? negation() : unary(true);
  Operator op;
  while (left && find_operator(op) && op.level >= least) {
    ExpressionPtr node = make(op.kind, tokens_.line());
    node->operands.push_back(*std::move(left));
    const Level level = op.level;
    do {
      SOLI_RETURN_IF_ERROR(operand(*node, op));
    } while (find_operator(op) && op.level == level);
    left = finish(std::move(node));
  }
  return left;
}

Result<ExpressionPtr> ExpressionParser::signed_operand() {
  const NestingGuard guard(depth_);
  SOLI_RETURN_IF_ERROR(guard.check(tokens_.line()));
  const Token& sign = tokens_.take();
  ExpressionPtr node = make(sign.text == "-" ? Kind::kNegate : Kind::kPlus, sign.line);
  node->operands.resize(1);
  SOLI_ASSIGN_OR_RETURN(node->operands[0], unary(false));
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::unary(bool with_filter) {
  const bool has_sign = tokens_.is_operator("-") || tokens_.is_operator("+");
  SOLI_ASSIGN_OR_RETURN(ExpressionPtr node, has_sign ? signed_operand() : primary());
  SOLI_ASSIGN_OR_RETURN(node, postfix(std::move(node)));
  if (!with_filter) return node;
  return filters_and_tests(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::name(const Token& token) {
  ExpressionPtr node = make(Kind::kConstant, token.line);
  const std::string& text = token.text;
  if (text == "true" || text == "True") {
    node->value = Value(true);
  } else if (text == "false" || text == "False") {
    node->value = Value(false);
  } else if (text == "none" || text == "None") {
    node->value = Value(None{});
  } else {
    node->kind = Kind::kName;
    node->symbol = symbols_.of(text);
    if (text == "varargs") ++rest_names_.varargs;
    if (text == "kwargs") ++rest_names_.kwargs;
    node->name = text;
    node->missing = std::make_shared<const std::string>(fmt::format("'{}' is undefined", printable(text)));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::number() {
  const Token& token = tokens_.take();
  ExpressionPtr node = make(Kind::kConstant, token.line);
  node->value = token.kind == Token::Kind::kInteger ? Value(token.integer) : Value(token.number);
  return node;
}

Result<ExpressionPtr> ExpressionParser::primary() {
  switch (tokens_.now().kind) {
    case Token::Kind::kName:
      return name(tokens_.take());
    case Token::Kind::kString:
      return string();
    case Token::Kind::kInteger:
    case Token::Kind::kFloat:
      return number();
    default:
      break;
  }
  if (tokens_.is_operator("(")) return group();
  if (tokens_.is_operator("[")) return list();
  if (tokens_.is_operator("{")) return dict();
  return tokens_.unexpected("an expression");
}

/// Strings side by side are one.
Result<ExpressionPtr> ExpressionParser::string() {
  ExpressionPtr node = make(Kind::kConstant, tokens_.line());
  std::string text = std::move(tokens_.take().text);
  while (tokens_.is(Token::Kind::kString)) text += tokens_.take().text;
  node->value = constant_text(std::move(text));
  return node;
}

Result<ExpressionPtr> ExpressionParser::group() {
  const uint32_t line = tokens_.take().line;
  if (tokens_.take_operator(")")) return make(Kind::kTuple, line);
  Result<ExpressionPtr> node = tuple();
  if (node && !tokens_.take_operator(")")) return tokens_.unexpected("')'");
  return node;
}

Result<ExpressionPtr> ExpressionParser::list() {
  ExpressionPtr node = make(Kind::kList, tokens_.take().line);
  while (!tokens_.take_operator("]")) {
    if (!node->operands.empty()) {
      SOLI_RETURN_IF_ERROR(tokens_.expect_operator(","));
      if (tokens_.take_operator("]")) break;
    }
    SOLI_ASSIGN_OR_RETURN(ExpressionPtr item, expression());
    node->operands.push_back(std::move(item));
  }
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::dict() {
  ExpressionPtr node = make(Kind::kDict, tokens_.take().line);
  while (!tokens_.take_operator("}")) {
    if (!node->operands.empty()) {
      SOLI_RETURN_IF_ERROR(tokens_.expect_operator(","));
      if (tokens_.take_operator("}")) break;
    }
    SOLI_ASSIGN_OR_RETURN(ExpressionPtr key, expression());
    SOLI_RETURN_IF_ERROR(tokens_.expect_operator(":"));
    SOLI_ASSIGN_OR_RETURN(ExpressionPtr value, expression());
    node->operands.push_back(std::move(key));
    node->operands.push_back(std::move(value));
  }
  return finish(std::move(node));
}

}  // namespace soli::jinja
