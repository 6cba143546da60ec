#include "format/jinja/parser.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "format/jinja/expression_parser.h"
#include "format/jinja/token_reader.h"

namespace soli::jinja {
namespace {

using Kind = Statement::Kind;
using EndTags = std::initializer_list<std::string_view>;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens)
      : tokens_(std::move(tokens)), expressions_(tokens_, syntax_.symbols, depth_) {}

  Result<Syntax> run();

 private:
  Status block(Block& into, EndTags ends);
  Status tag(Statement& statement);
  Status end_tag(std::string_view name);
  Status end_of_tag() { return tokens_.expect(Token::Kind::kTagEnd, "'%}'"); }
  /// The body up to one of the end tags, whose name is left to be taken.
  Status body_until(Block& into, EndTags ends);

  Status parse_if(Statement& statement);
  Status parse_for(Statement& statement);
  Status parse_set(Statement& statement);
  Status parse_macro(Statement& statement);
  Status parse_call(Statement& statement);
  Status parse_filter(Statement& statement);
  Status parse_with(Statement& statement);
  Status parse_generation(Statement& statement);
  Status parse_loop_control(Statement& statement, Kind kind);
  Result<Target> target(bool may_be_attribute);
  Status parameters(MacroSyntax& macro);
  Status macro_body(MacroSyntax& macro, std::string_view end);

  TokenReader tokens_;
  Syntax syntax_;
  int depth_ = 0;
  int loops_ = 0;  // for-loops around the statement, within its macro
  ExpressionParser expressions_;
};

Status Parser::body_until(Block& into, EndTags ends) {
  SOLI_RETURN_IF_ERROR(end_of_tag());
  return block(into, ends);
}

/// Statements up to a tag that is one of `ends` (the end of the source, where there is none); its '{%' is
/// taken, its name is not.
Status Parser::block(Block& into, EndTags ends) {
  const NestingGuard guard(depth_);
  SOLI_RETURN_IF_ERROR(guard.check(tokens_.line()));
  while (true) {
    Statement statement;
    statement.line = tokens_.line();
    if (tokens_.is(Token::Kind::kEnd)) {
      if (ends.size() == 0) return {};
      return tokens_.unexpected(fmt::format("{{% {} %}}", *(ends.end() - 1)));
    }
    const Token::Kind kind = tokens_.now().kind;
    Token& token = tokens_.take();
    if (kind == Token::Kind::kText) {
      statement.text = std::move(token.text);
    } else if (kind == Token::Kind::kPrintBegin) {
      statement.kind = Kind::kPrint;
      SOLI_ASSIGN_OR_RETURN(statement.expression, expressions_.tuple());
      SOLI_RETURN_IF_ERROR(tokens_.expect(Token::Kind::kPrintEnd, "'}}'"));
    } else {
      if (tokens_.is(Token::Kind::kName) &&
          std::find(ends.begin(), ends.end(), tokens_.now().text) != ends.end()) {
        return {};
      }
      SOLI_RETURN_IF_ERROR(tag(statement));
    }
    into.push_back(std::move(statement));
  }
}

Status Parser::tag(Statement& statement) {
  struct Tag {
    std::string_view name;
    Status (Parser::*parse)(Statement&);
  };
  constexpr Tag kTags[] = {{"if", &Parser::parse_if},     {"for", &Parser::parse_for},
                           {"set", &Parser::parse_set},   {"macro", &Parser::parse_macro},
                           {"call", &Parser::parse_call}, {"filter", &Parser::parse_filter},
                           {"with", &Parser::parse_with}, {"generation", &Parser::parse_generation}};
  const uint32_t line = tokens_.line();
  SOLI_ASSIGN_OR_RETURN(const std::string name, tokens_.expect_name("the name of a tag"));
  for (const Tag& known : kTags) {
    if (known.name == name) return (this->*known.parse)(statement);
  }
  if (name == "break") return parse_loop_control(statement, Kind::kBreak);
  if (name == "continue") return parse_loop_control(statement, Kind::kContinue);
  if (name.starts_with("end") || name == "else" || name == "elif") {
    return fail_at(line, ErrorKind::kMalformed, "'{}' belongs to nothing that is open here", printable(name));
  }
  return fail_at(line, ErrorKind::kUnsupported,
                 "there is no tag '{}'; there are if, for, set, macro, call, filter, with, raw, generation, "
                 "break and continue",
                 printable(name));
}

Status Parser::end_tag(std::string_view name) {
  if (!tokens_.take_name(name)) return tokens_.unexpected(fmt::format("'{}'", name));
  return end_of_tag();
}

Status Parser::parse_if(Statement& statement) {
  statement.kind = Kind::kIf;
  while (true) {
    Branch branch;
    SOLI_ASSIGN_OR_RETURN(branch.condition, expressions_.tuple(false));
    SOLI_RETURN_IF_ERROR(body_until(branch.body, {"elif", "else", "endif"}));
    statement.branches.push_back(std::move(branch));
    if (!tokens_.take_name("elif")) break;
  }
  if (tokens_.take_name("else")) {
    Branch& otherwise = statement.branches.emplace_back();
    SOLI_RETURN_IF_ERROR(body_until(otherwise.body, {"endif"}));
  }
  return end_tag("endif");
}

Status Parser::parse_for(Statement& statement) {
  statement.kind = Kind::kFor;
  SOLI_ASSIGN_OR_RETURN(statement.target, target(false));
  if (!tokens_.take_name("in")) return tokens_.unexpected("'in'");
  SOLI_ASSIGN_OR_RETURN(statement.expression, expressions_.tuple(false));
  if (tokens_.take_name("if")) {
    SOLI_ASSIGN_OR_RETURN(statement.condition, expressions_.expression());
  }
  if (tokens_.is_name("recursive")) {
    return fail_at(tokens_.line(), ErrorKind::kUnsupported, "for: recursive loops are not supported");
  }
  ++loops_;
  SOLI_RETURN_IF_ERROR(body_until(statement.body, {"else", "endfor"}));
  --loops_;
  if (tokens_.take_name("else")) {
    SOLI_RETURN_IF_ERROR(body_until(statement.otherwise, {"endfor"}));
  }
  return end_tag("endfor");
}

Result<Target> Parser::target(bool may_be_attribute) {
  Target target;
  const bool in_brackets = tokens_.take_operator("(");
  while (true) {
    const uint32_t line = tokens_.line();
    SOLI_ASSIGN_OR_RETURN(const std::string name, tokens_.expect_name("the name of a variable"));
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (name == constant) return fail_at(line, ErrorKind::kMalformed, "'{}' cannot be assigned to", name);
    }
    target.symbols.push_back(syntax_.symbols.of(name));
    if (may_be_attribute && target.symbols.size() == 1 && tokens_.take_operator(".")) {
      SOLI_ASSIGN_OR_RETURN(target.attribute, tokens_.expect_name("the name of an attribute"));
      return target;
    }
    if (!tokens_.take_operator(",")) break;
    target.unpacks = true;
    if (!tokens_.is(Token::Kind::kName) || tokens_.is_name("in")) break;
  }
  if (in_brackets) {
    SOLI_RETURN_IF_ERROR(tokens_.expect_operator(")"));
  }
  return target;
}

Status Parser::parse_set(Statement& statement) {
  SOLI_ASSIGN_OR_RETURN(statement.target, target(true));
  if (tokens_.take_operator("=")) {
    statement.kind = Kind::kSet;
    SOLI_ASSIGN_OR_RETURN(statement.expression, expressions_.tuple());
    return end_of_tag();
  }
  statement.kind = Kind::kSetBlock;
  if (tokens_.take_operator("|")) {
    SOLI_ASSIGN_OR_RETURN(statement.expression, expressions_.filters(nullptr));
  }
  SOLI_RETURN_IF_ERROR(body_until(statement.body, {"endset"}));
  return end_tag("endset");
}

Status Parser::parameters(MacroSyntax& macro) {
  SOLI_RETURN_IF_ERROR(tokens_.expect_operator("("));
  while (!tokens_.take_operator(")")) {
    if (!macro.parameters.empty()) {
      SOLI_RETURN_IF_ERROR(tokens_.expect_operator(","));
    }
    MacroSyntax::Parameter parameter = {};
    SOLI_ASSIGN_OR_RETURN(parameter.name, tokens_.expect_name("the name of a parameter"));
    parameter.symbol = syntax_.symbols.of(parameter.name);
    if (tokens_.take_operator("=")) {
      SOLI_ASSIGN_OR_RETURN(parameter.fallback, expressions_.expression());
    } else if (!macro.parameters.empty() && macro.parameters.back().fallback != nullptr) {
      return tokens_.unexpected("'=': a parameter without a default follows one with a default");
    }
    macro.parameters.push_back(std::move(parameter));
  }
  return {};
}

/// Reads the body of a macro, and notes whether it takes more arguments than it has parameters for: where it
/// says varargs or kwargs.
Status Parser::macro_body(MacroSyntax& macro, std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  const RestNames before = expressions_.rest_names();
  SOLI_RETURN_IF_ERROR(body_until(macro.body, {end}));
  macro.takes_rest = expressions_.rest_names().varargs > before.varargs;
  macro.takes_rest_named = expressions_.rest_names().kwargs > before.kwargs;
  loops_ = loops;
  return end_tag(end);
}

Status Parser::parse_macro(Statement& statement) {
  statement.kind = Kind::kMacro;
  statement.macro = std::make_unique<MacroSyntax>();
  SOLI_ASSIGN_OR_RETURN(statement.macro->name, tokens_.expect_name("the name of a macro"));
  statement.macro->symbol = syntax_.symbols.of(statement.macro->name);
  SOLI_RETURN_IF_ERROR(parameters(*statement.macro));
  return macro_body(*statement.macro, "endmacro");
}

Status Parser::parse_call(Statement& statement) {
  statement.kind = Kind::kCall;
  statement.macro = std::make_unique<MacroSyntax>();
  if (tokens_.is_operator("(")) {
    SOLI_RETURN_IF_ERROR(parameters(*statement.macro));
  }
  SOLI_ASSIGN_OR_RETURN(statement.expression, expressions_.call_expression());
  return macro_body(*statement.macro, "endcall");
}

Status Parser::parse_filter(Statement& statement) {
  statement.kind = Kind::kFilter;
  SOLI_ASSIGN_OR_RETURN(statement.expression, expressions_.filters(nullptr));
  SOLI_RETURN_IF_ERROR(body_until(statement.body, {"endfilter"}));
  return end_tag("endfilter");
}

Status Parser::parse_with(Statement& statement) {
  statement.kind = Kind::kWith;
  while (!tokens_.is(Token::Kind::kTagEnd)) {
    if (!statement.assignments.empty()) {
      SOLI_RETURN_IF_ERROR(tokens_.expect_operator(","));
    }
    Target name;
    SOLI_ASSIGN_OR_RETURN(const std::string text, tokens_.expect_name("the name of a variable"));
    name.symbols.push_back(syntax_.symbols.of(text));
    SOLI_RETURN_IF_ERROR(tokens_.expect_operator("="));
    SOLI_ASSIGN_OR_RETURN(ExpressionPtr value, expressions_.expression());
    statement.assignments.emplace_back(std::move(name), std::move(value));
  }
  SOLI_RETURN_IF_ERROR(body_until(statement.body, {"endwith"}));
  return end_tag("endwith");
}

Status Parser::parse_generation(Statement& statement) {
  statement.kind = Kind::kScope;
  SOLI_RETURN_IF_ERROR(body_until(statement.body, {"endgeneration"}));
  return end_tag("endgeneration");
}

Status Parser::parse_loop_control(Statement& statement, Kind kind) {
  statement.kind = kind;
  if (loops_ == 0) {
    return fail_at(statement.line, ErrorKind::kMalformed, "{} outside of a loop",
                   kind == Kind::kBreak ? "break" : "continue");
  }
  return end_of_tag();
}

Result<Syntax> Parser::run() {
  SOLI_RETURN_IF_ERROR(block(syntax_.body, {}));
  return std::move(syntax_);
}

}  // namespace

Result<Syntax> parse_template(std::string_view source) {
  SOLI_ASSIGN_OR_RETURN(std::vector<Token> tokens, read_tokens(source));
  return Parser(std::move(tokens)).run();
}

}  // namespace soli::jinja
