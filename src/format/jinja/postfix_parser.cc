// What follows a value: .name, [index], (arguments), |filter and `is` test.
#include <algorithm>

#include "base/utf8.h"
#include "format/jinja/expression_parser.h"
#include "format/jinja/filters.h"
#include "format/jinja/tests.h"

namespace soli::jinja {

Result<ExpressionPtr> ExpressionParser::postfix(ExpressionPtr node) {
  while (true) {
    if (tokens_.is_operator(".")) {
      SOLI_ASSIGN_OR_RETURN(node, attribute(std::move(node)));
    } else if (tokens_.is_operator("[")) {
      SOLI_ASSIGN_OR_RETURN(node, subscript(std::move(node)));
    } else if (tokens_.is_operator("(")) {
      SOLI_ASSIGN_OR_RETURN(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::attribute(ExpressionPtr value) {
  const uint32_t line = tokens_.take().line;
  ExpressionPtr node = make(Kind::kAttribute, line);
  node->operands.push_back(std::move(value));
  if (tokens_.is(Token::Kind::kInteger)) {  // value.0 is value[0]
    node->kind = Kind::kElement;
    ExpressionPtr index = make(Kind::kConstant, line);
    index->value = Value(tokens_.take().integer);
    node->operands.push_back(std::move(index));
  } else {
    SOLI_ASSIGN_OR_RETURN(node->name, tokens_.expect_name("the name of an attribute"));
  }
  return finish(std::move(node));
}

Status ExpressionParser::subscript_parts(Expression& node, bool& is_slice) {
  // node.operands: value, then up to three parts between colons.
  for (int part = 0; part < 3; ++part) {
    ExpressionPtr bound;
    if (!tokens_.is_operator(":") && !tokens_.is_operator("]")) {
      SOLI_ASSIGN_OR_RETURN(bound, expression());
    }
    node.operands.push_back(std::move(bound));
    if (!tokens_.take_operator(":")) break;
    is_slice = true;
  }
  return {};
}

Result<ExpressionPtr> ExpressionParser::subscript(ExpressionPtr value) {
  ExpressionPtr node = make(Kind::kElement, tokens_.take().line);
  node->operands.push_back(std::move(value));
  bool is_slice = false;
  SOLI_RETURN_IF_ERROR(subscript_parts(*node, is_slice));
  if (is_slice) {
    node->kind = Kind::kSlice;
    node->operands.resize(4);
  } else if (node->operands[1] == nullptr) {
    return tokens_.unexpected("an index");
  } else if (tokens_.is_operator(",")) {  // a[1, 2] has the key (1, 2)
    ExpressionPtr key = make(Kind::kTuple, node->line);
    key->operands.push_back(std::move(node->operands[1]));
    while (tokens_.take_operator(",") && !tokens_.is_operator("]")) {
      SOLI_ASSIGN_OR_RETURN(ExpressionPtr item, expression());
      key->operands.push_back(std::move(item));
    }
    SOLI_ASSIGN_OR_RETURN(node->operands[1], finish(std::move(key)));
  }
  SOLI_RETURN_IF_ERROR(tokens_.expect_operator("]"));
  return finish(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::call(ExpressionPtr callee) {
  ExpressionPtr node = make(Kind::kCall, tokens_.line());
  node->operands.push_back(std::move(callee));
  SOLI_ASSIGN_OR_RETURN(node->call, arguments(node->height));
  return finish(std::move(node));
}

Result<std::unique_ptr<Call>> ExpressionParser::arguments(int& height) {
  SOLI_RETURN_IF_ERROR(tokens_.expect_operator("("));
  auto call = std::make_unique<Call>();
  bool first = true;
  while (!tokens_.take_operator(")")) {
    if (!first) {
      SOLI_RETURN_IF_ERROR(tokens_.expect_operator(","));
      if (tokens_.take_operator(")")) break;
    }
    first = false;
    SOLI_RETURN_IF_ERROR(argument(*call, height));
  }
  return call;
}

Status ExpressionParser::argument(Call& call, int& height) {
  const auto read = [&](ExpressionPtr& into) -> Status {
    SOLI_ASSIGN_OR_RETURN(into, expression());
    height = std::max(height, into->height + 1);
    return {};
  };
  const Token& next = tokens_.next();
  if (tokens_.is_operator("*") || tokens_.is_operator("**")) {
    ExpressionPtr& into = tokens_.take().text == "*" ? call.spread : call.spread_named;
    if (into != nullptr) return tokens_.unexpected("no second * or **");
    return read(into);
  }
  if (tokens_.is(Token::Kind::kName) && next.kind == Token::Kind::kOperator && next.text == "=") {
    std::string name = tokens_.take().text;
    tokens_.take();
    return read(call.named.emplace_back(std::move(name), nullptr).second);
  }
  if (!call.named.empty() || call.spread != nullptr || call.spread_named != nullptr) {
    return tokens_.unexpected("an argument with a name");
  }
  return read(call.positional.emplace_back());
}

Result<ExpressionPtr> ExpressionParser::filters_and_tests(ExpressionPtr node) {
  while (true) {
    if (tokens_.take_operator("|")) {
      SOLI_ASSIGN_OR_RETURN(node, filter(std::move(node)));
    } else if (tokens_.is_name("is")) {
      SOLI_ASSIGN_OR_RETURN(node, test(std::move(node)));
    } else if (tokens_.is_operator("(")) {
      SOLI_ASSIGN_OR_RETURN(node, call(std::move(node)));
    } else {
      return node;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::filters(ExpressionPtr subject) {
  SOLI_ASSIGN_OR_RETURN(ExpressionPtr node, filter(std::move(subject)));
  while (tokens_.take_operator("|")) {
    SOLI_ASSIGN_OR_RETURN(node, filter(std::move(node)));
  }
  return node;
}

Result<ExpressionPtr> ExpressionParser::filter(ExpressionPtr subject) {
  ExpressionPtr node = make(Kind::kFilter, tokens_.line());
  SOLI_ASSIGN_OR_RETURN(node->name, tokens_.expect_name("the name of a filter"));
  node->filter = find_filter(node->name);
  node->operands.push_back(std::move(subject));
  if (tokens_.is_operator("(")) {
    SOLI_ASSIGN_OR_RETURN(node->call, arguments(node->height));
  } else {
    node->call = std::make_unique<Call>();
  }
  return finish(std::move(node));
}

/// A test may have one argument without brackets: `is divisibleby 3`.
bool ExpressionParser::begins_test_argument() const {
  switch (tokens_.now().kind) {
    case Token::Kind::kString:
    case Token::Kind::kInteger:
    case Token::Kind::kFloat:
      return true;
    case Token::Kind::kName: {
      constexpr std::string_view kOther[] = {"else", "or", "and", "is", "if", "in", "not"};
      return std::find(std::begin(kOther), std::end(kOther), tokens_.now().text) == std::end(kOther);
    }
    default:
      return tokens_.is_operator("[") || tokens_.is_operator("{");
  }
}

Result<ExpressionPtr> ExpressionParser::test(ExpressionPtr subject) {
  const uint32_t line = tokens_.take().line;
  const bool negated = tokens_.take_name("not");
  ExpressionPtr node = make(Kind::kTest, line);
  SOLI_ASSIGN_OR_RETURN(node->name, tokens_.expect_name("the name of a test"));
  node->test = find_test(node->name);
  node->operands.push_back(std::move(subject));
  node->call = std::make_unique<Call>();
  if (tokens_.is_operator("(")) {
    SOLI_ASSIGN_OR_RETURN(node->call, arguments(node->height));
  } else if (begins_test_argument()) {
    SOLI_ASSIGN_OR_RETURN(ExpressionPtr argument, primary());
    SOLI_ASSIGN_OR_RETURN(argument, postfix(std::move(argument)));
    node->height = std::max(node->height, argument->height + 1);
    node->call->positional.push_back(std::move(argument));
  }
  SOLI_ASSIGN_OR_RETURN(node, finish(std::move(node)));
  if (!negated) return node;
  ExpressionPtr inverted = make(Kind::kNot, line);
  inverted->operands.push_back(std::move(node));
  return finish(std::move(inverted));
}

Result<ExpressionPtr> ExpressionParser::call_expression() {
  SOLI_ASSIGN_OR_RETURN(ExpressionPtr node, unary(true));
  if (node->kind != Kind::kCall) return fail_at(node->line, ErrorKind::kMalformed, "call: no call follows");
  return node;
}

}  // namespace soli::jinja
