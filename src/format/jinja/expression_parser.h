#pragma once

// Expressions, with the precedences of Jinja: if-else, or, and, not, comparisons, + and -, ~, the other
// arithmetic, **, signs, then filters and tests, which bind most closely but for . [] and ().

#include <string_view>

#include "format/jinja/syntax.h"
#include "format/jinja/token_reader.h"

namespace soli::jinja {

/// How often the names of a macro's further arguments occurred.
struct RestNames {
  size_t varargs = 0, kwargs = 0;
};

class ExpressionParser {
 public:
  ExpressionParser(TokenReader& tokens, Symbols& symbols, int& depth)
      : tokens_(tokens), symbols_(symbols), depth_(depth) {}

  Result<ExpressionPtr> expression();
  /// Like expression(), but without if-else on the outermost level: what stands before the `if` of a
  /// for-loop.
  Result<ExpressionPtr> without_condition();
  /// One expression, or a tuple of several with commas between.
  Result<ExpressionPtr> tuple(bool with_condition = true);
  /// `name` or `name(arguments)`, and more after |; applied to `subject`, or to the text of a block for null.
  Result<ExpressionPtr> filters(ExpressionPtr subject);
  /// What a call block calls.
  Result<ExpressionPtr> call_expression();
  const RestNames& rest_names() const { return rest_names_; }

 private:
  using Kind = Expression::Kind;
  /// How closely operators bind, the least first.
  enum class Level { kOr, kAnd, kNot, kCompare, kSum, kConcat, kProduct, kPower, kUnary };
  struct Operator;

  ExpressionPtr make(Kind kind, uint32_t line) const;
  Result<ExpressionPtr> finish(ExpressionPtr node) const;
  [[gnu::noinline]] Result<ExpressionPtr> condition(ExpressionPtr value);

  [[gnu::noinline]] Result<ExpressionPtr> binary(Level least);
  [[gnu::noinline]] Result<ExpressionPtr> negation();
  bool find_operator(Operator& found) const;
  Status operand(Expression& node, const Operator& op);
  [[gnu::noinline]] Result<ExpressionPtr> unary(bool with_filter);
  [[gnu::noinline]] Result<ExpressionPtr> signed_operand();
  [[gnu::noinline]] Result<ExpressionPtr> primary();
  [[gnu::noinline]] Result<ExpressionPtr> name(const Token& token);
  [[gnu::noinline]] Result<ExpressionPtr> number();
  [[gnu::noinline]] Result<ExpressionPtr> string();
  [[gnu::noinline]] Result<ExpressionPtr> group();
  [[gnu::noinline]] Result<ExpressionPtr> list();
  [[gnu::noinline]] Result<ExpressionPtr> dict();
  [[gnu::noinline]] Result<ExpressionPtr> postfix(ExpressionPtr node);
  [[gnu::noinline]] Result<ExpressionPtr> attribute(ExpressionPtr node);
  [[gnu::noinline]] Result<ExpressionPtr> subscript(ExpressionPtr node);
  Status subscript_parts(Expression& node, bool& is_slice);
  [[gnu::noinline]] Result<ExpressionPtr> call(ExpressionPtr callee);
  Result<std::unique_ptr<Call>> arguments(int& height);
  Status argument(Call& call, int& height);
  [[gnu::noinline]] Result<ExpressionPtr> filters_and_tests(ExpressionPtr node);
  [[gnu::noinline]] Result<ExpressionPtr> filter(ExpressionPtr subject);
  [[gnu::noinline]] Result<ExpressionPtr> test(ExpressionPtr subject);
  bool begins_test_argument() const;

  TokenReader& tokens_;
  Symbols& symbols_;
  int& depth_;
  RestNames rest_names_;
};

}  // namespace soli::jinja
