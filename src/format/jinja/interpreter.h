#pragma once

// Renders a parsed template.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/jinja/objects.h"
#include "format/jinja/syntax.h"

namespace soli::jinja {

/// Variables of a loop, a macro, a block or the template; what is not here is looked for in the parent.
struct Scope {
  Scope(Meter& meter, Scope* outer) : parent(outer), charged(meter, sizeof(Scope)) {}

  Scope* parent;
  std::vector<std::pair<uint32_t, Value>> variables;
  bool has_macro = false;  // a macro was defined here, and may outlive the block
  Charged charged;
};

/// One rendering; used once, by one thread. The syntax must outlive it.
class Interpreter {
 public:
  Interpreter(const Syntax& syntax, Context& context);
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Sets a variable of the template. One that the template never mentions is left out.
  void set(std::string_view name, Value value);

  /// The text. Errors begin with "line N: ".
  Result<std::string> run();

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class DepthGuard;
  class InnerScope;

  Result<Flow> run_block(const Block& block);
  [[gnu::noinline]] Result<Flow> run_statement(const Statement& statement);
  [[gnu::noinline]] Result<Flow> run_if(const Statement& statement);
  [[gnu::noinline]] Result<Flow> run_for(const Statement& statement);
  Result<std::vector<Value>> loop_items(const Statement& statement);
  [[gnu::noinline]] Result<Flow> run_iteration(const Statement& statement, const Value& loop,
                                               const Value& item);
  [[gnu::noinline]] Status run_print(const Statement& statement);
  [[gnu::noinline]] Status run_set(const Statement& statement);
  [[gnu::noinline]] Status run_set_block(const Statement& statement);
  [[gnu::noinline]] Status run_macro(const Statement& statement);
  [[gnu::noinline]] Status run_call(const Statement& statement);
  [[gnu::noinline]] Status run_filter(const Statement& statement);
  [[gnu::noinline]] Result<Flow> run_with(const Statement& statement);
  Result<Flow> run_in_scope(const Block& body);
  Result<Value> capture(const Block& body);
  Result<Value> filtered(const Expression* filters, Value text);
  Status assign(const Target& target, Value value);
  Status unpack(const Target& target, const Value& value);
  Result<Value> make_macro(const MacroSyntax& syntax);

  Result<Value> evaluate(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_node(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_sequence(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_dict(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_chain(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_concat(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_compare(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_logical(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_unary(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_condition(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_element(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_slice(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_attribute(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_call(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_filter(const Expression& node);
  [[gnu::noinline]] Result<Value> evaluate_test(const Expression& node);
  [[gnu::noinline]] Status evaluate_arguments(const Call& call, Arguments& arguments);
  Status spread(const Call& call, Arguments& arguments);
  Result<Value> look_up(const Expression& node);
  [[gnu::noinline]] Result<Value> call_object(const Value& callee, Arguments& arguments);
  [[gnu::noinline]] Result<Value> call_macro(const Macro& macro, Arguments& arguments);
  Status bind_macro(const MacroSyntax& macro, Arguments& arguments);
  Status bind_rest(const MacroSyntax& macro, Arguments& arguments, size_t n_positional);

  const Syntax& syntax_;
  Context& context_;
  const uint32_t loop_symbol_, caller_symbol_, varargs_symbol_, kwargs_symbol_;
  Scope globals_;
  Scope root_;
  Scope* scope_ = &root_;
  std::vector<std::unique_ptr<Scope>> kept_;  // scopes that macros refer to
  TextBuilder* out_ = nullptr;
  Value block_text_;  // what the filters of a block are applied to
  int depth_ = 0;
  uint32_t error_line_ = 0;  // of the innermost node that failed
};

}  // namespace soli::jinja
