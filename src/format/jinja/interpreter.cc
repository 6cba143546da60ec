// Statements.
#include "format/jinja/interpreter.h"

#include <algorithm>

#include "base/utf8.h"
#include "format/jinja/interpreter_scope.h"
#include "format/jinja/operators.h"
#include "format/jinja/printing.h"

namespace soli::jinja {
namespace {

void set_in(Scope& scope, uint32_t symbol, Value value) {
  for (auto& [candidate, held] : scope.variables) {
    if (candidate == symbol) {
      held = std::move(value);
      return;
    }
  }
  scope.variables.emplace_back(symbol, std::move(value));
}

}  // namespace

Interpreter::Interpreter(const Syntax& syntax, Context& context)
    : syntax_(syntax),
      context_(context),
      loop_symbol_(syntax.symbols.find("loop")),
      caller_symbol_(syntax.symbols.find("caller")),
      varargs_symbol_(syntax.symbols.find("varargs")),
      kwargs_symbol_(syntax.symbols.find("kwargs")),
      globals_(context.meter(), nullptr),
      root_(context.meter(), &globals_) {
  for (const auto& [name, function] : global_functions()) {
    const uint32_t symbol = syntax.symbols.find(name);
    if (symbol == Symbols::kNone) continue;
    set_in(globals_, symbol,
           Value(std::shared_ptr<Object>(std::make_shared<Global>(context.meter(), function))));
  }
}

void Interpreter::set(std::string_view name, Value value) {
  const uint32_t symbol = syntax_.symbols.find(name);
  if (symbol != Symbols::kNone) set_in(root_, symbol, std::move(value));
}

Result<std::string> Interpreter::run() {
  TextBuilder out(context_, context_.limits().output_bytes);
  out_ = &out;
  const Result<Flow> flow = run_block(syntax_.body);
  if (!flow) {
    return fail(flow.error().kind, "line {}: {}", std::max<uint32_t>(error_line_, 1), flow.error().message);
  }
  return out.finish();
}

Result<Interpreter::Flow> Interpreter::run_block(const Block& block) {
  const DepthGuard guard(*this);
  SOLI_RETURN_IF_ERROR(guard.check());
  for (const Statement& statement : block) {
    Result<Flow> flow = run_statement(statement);
    if (!flow && error_line_ == 0) error_line_ = statement.line;
    if (!flow || *flow != Flow::kNext) return flow;
    if (out_->failed()) {
      error_line_ = statement.line;
      return tl::unexpected<Error>(out_->finish().error());
    }
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_statement(const Statement& statement) {
  using Kind = Statement::Kind;
  const auto then_next = [](const Status& status) -> Result<Flow> {
    SOLI_RETURN_IF_ERROR(status);
    return Flow::kNext;
  };
  switch (statement.kind) {
    case Kind::kText:
      out_->append(statement.text);
      return Flow::kNext;
    case Kind::kPrint:
      return then_next(run_print(statement));
    case Kind::kIf:
      return run_if(statement);
    case Kind::kFor:
      return run_for(statement);
    case Kind::kSet:
      return then_next(run_set(statement));
    case Kind::kSetBlock:
      return then_next(run_set_block(statement));
    case Kind::kMacro:
      return then_next(run_macro(statement));
    case Kind::kCall:
      return then_next(run_call(statement));
    case Kind::kFilter:
      return then_next(run_filter(statement));
    case Kind::kWith:
      return run_with(statement);
    case Kind::kScope:
      return run_in_scope(statement.body);
    case Kind::kBreak:
      return Flow::kBreak;
    case Kind::kContinue:
      break;
  }
  return Flow::kContinue;
}

Status Interpreter::run_print(const Statement& statement) {
  SOLI_ASSIGN_OR_RETURN(const Value value, evaluate(*statement.expression));
  append_value(*out_, value);
  return {};
}

Result<Interpreter::Flow> Interpreter::run_if(const Statement& statement) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition != nullptr) {
      SOLI_ASSIGN_OR_RETURN(const Value condition, evaluate(*branch.condition));
      if (!condition.truthy()) continue;
    }
    return run_block(branch.body);
  }
  return Flow::kNext;
}

/// What a for-loop goes over, after its condition.
Result<std::vector<Value>> Interpreter::loop_items(const Statement& statement) {
  SOLI_ASSIGN_OR_RETURN(const Value iterable, evaluate(*statement.expression));
  SOLI_ASSIGN_OR_RETURN(std::vector<Value> items, elements_of(context_, iterable));
  if (statement.condition == nullptr) return items;
  InnerScope scope(*this, scope_);
  std::vector<Value> chosen;
  for (Value& item : items) {
    scope.clear();
    SOLI_RETURN_IF_ERROR(assign(statement.target, item));
    SOLI_ASSIGN_OR_RETURN(const Value holds, evaluate(*statement.condition));
    if (holds.truthy()) chosen.push_back(std::move(item));
  }
  return chosen;
}

Result<Interpreter::Flow> Interpreter::run_for(const Statement& statement) {
  SOLI_ASSIGN_OR_RETURN(std::vector<Value> items, loop_items(statement));
  if (items.empty()) return statement.otherwise.empty() ? Flow::kNext : run_block(statement.otherwise);
  SOLI_RETURN_IF_ERROR(context_.room_for(sizeof(Loop) + items.size() * kValueBytes));
  const auto loop = std::make_shared<Loop>(context_.meter(), std::move(items));
  const Value loop_value{std::shared_ptr<Object>(loop)};
  InnerScope scope(*this, scope_);
  for (; loop->index < loop->items.size(); ++loop->index) {
    scope.clear();
    SOLI_ASSIGN_OR_RETURN(const Flow flow, run_iteration(statement, loop_value, loop->items[loop->index]));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::run_iteration(const Statement& statement, const Value& loop,
                                                     const Value& item) {
  if (loop_symbol_ != Symbols::kNone) set_in(*scope_, loop_symbol_, loop);
  SOLI_RETURN_IF_ERROR(assign(statement.target, item));
  return run_block(statement.body);
}

Status Interpreter::run_set(const Statement& statement) {
  SOLI_ASSIGN_OR_RETURN(Value value, evaluate(*statement.expression));
  return assign(statement.target, std::move(value));
}

Status Interpreter::assign(const Target& target, Value value) {
  if (target.unpacks) return unpack(target, value);
  const uint32_t symbol = target.symbols.front();
  SOLI_RETURN_IF_ERROR(context_.work(scope_->variables.size() / 16 + 1));
  if (target.attribute.empty()) {
    set_in(*scope_, symbol, std::move(value));
    return {};
  }
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    for (const auto& [candidate, held] : scope->variables) {
      if (candidate == symbol) return set_attribute(held, target.attribute, std::move(value));
    }
  }
  return fail(ErrorKind::kInvalidArgument, "'{}' cannot be set: there is no such namespace",
              printable(target.attribute));
}

Status Interpreter::unpack(const Target& target, const Value& value) {
  SOLI_ASSIGN_OR_RETURN(std::vector<Value> items, elements_of(context_, value));
  if (items.size() != target.symbols.size()) {
    return fail(ErrorKind::kInvalidArgument, "{} values for {} names", items.size(), target.symbols.size());
  }
  for (size_t i = 0; i < items.size(); ++i) {
    SOLI_RETURN_IF_ERROR(context_.work(scope_->variables.size() / 16 + 1));
    set_in(*scope_, target.symbols[i], std::move(items[i]));
  }
  return {};
}

Result<Interpreter::Flow> Interpreter::run_in_scope(const Block& body) {
  InnerScope scope(*this, scope_);
  return run_block(body);
}

/// The text that a block makes, in a scope of its own.
Result<Value> Interpreter::capture(const Block& body) {
  TextBuilder text(context_);
  TextBuilder* const outer = std::exchange(out_, &text);
  const Result<Flow> flow = run_in_scope(body);
  out_ = outer;
  SOLI_RETURN_IF_ERROR(flow);
  return text.finish_value();
}

Result<Value> Interpreter::filtered(const Expression* filters, Value text) {
  if (filters == nullptr) return text;
  block_text_ = std::move(text);
  return evaluate(*filters);
}

Status Interpreter::run_set_block(const Statement& statement) {
  SOLI_ASSIGN_OR_RETURN(Value text, capture(statement.body));
  SOLI_ASSIGN_OR_RETURN(Value value, filtered(statement.expression.get(), std::move(text)));
  return assign(statement.target, std::move(value));
}

Status Interpreter::run_filter(const Statement& statement) {
  SOLI_ASSIGN_OR_RETURN(Value text, capture(statement.body));
  SOLI_ASSIGN_OR_RETURN(const Value value, filtered(statement.expression.get(), std::move(text)));
  append_value(*out_, value);
  return {};
}

Result<Interpreter::Flow> Interpreter::run_with(const Statement& statement) {
  std::vector<Value> values;  // all are evaluated in the scope outside
  for (const auto& [target, expression] : statement.assignments) {
    SOLI_ASSIGN_OR_RETURN(Value value, evaluate(*expression));
    values.push_back(std::move(value));
  }
  InnerScope scope(*this, scope_);
  for (size_t i = 0; i < values.size(); ++i) {
    SOLI_RETURN_IF_ERROR(assign(statement.assignments[i].first, std::move(values[i])));
  }
  return run_block(statement.body);
}

Result<Value> Interpreter::make_macro(const MacroSyntax& syntax) {
  SOLI_RETURN_IF_ERROR(context_.room_for(sizeof(Macro) + sizeof(Scope)));
  scope_->has_macro = true;
  return Value(std::shared_ptr<Object>(std::make_shared<Macro>(context_.meter(), syntax, *scope_)));
}

Status Interpreter::run_macro(const Statement& statement) {
  SOLI_ASSIGN_OR_RETURN(Value macro, make_macro(*statement.macro));
  set_in(*scope_, statement.macro->symbol, std::move(macro));
  return {};
}

Status Interpreter::run_call(const Statement& statement) {
  const Expression& node = *statement.expression;
  SOLI_ASSIGN_OR_RETURN(const Value callee, evaluate(*node.operands[0]));
  Arguments arguments;
  SOLI_RETURN_IF_ERROR(evaluate_arguments(*node.call, arguments));
  SOLI_ASSIGN_OR_RETURN(Value caller, make_macro(*statement.macro));
  arguments.named.emplace_back("caller", std::move(caller));
  SOLI_ASSIGN_OR_RETURN(const Value value, call_object(callee, arguments));
  append_value(*out_, value);
  return {};
}

}  // namespace soli::jinja
