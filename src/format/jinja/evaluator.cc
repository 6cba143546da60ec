// Expressions.
#include <algorithm>

#include "base/utf8.h"
#include "format/jinja/interpreter.h"
#include "format/jinja/interpreter_scope.h"
#include "format/jinja/operators.h"
#include "format/jinja/printing.h"
#include "format/jinja/tests.h"

namespace soli::jinja {

Result<Value> Interpreter::evaluate(const Expression& node) {
  const DepthGuard guard(*this);
  if (Status status = guard.check(); !status) {
    if (error_line_ == 0) error_line_ = node.line;
    return tl::unexpected<Error>(std::move(status).error());
  }
  Result<Value> value = evaluate_node(node);
  if (!value && error_line_ == 0) error_line_ = node.line;
  return value;
}

Result<Value> Interpreter::evaluate_node(const Expression& node) {
  using Kind = Expression::Kind;
  switch (node.kind) {
    case Kind::kConstant:
      return node.value;
    case Kind::kName:
      return look_up(node);
    case Kind::kList:
    case Kind::kTuple:
      return evaluate_sequence(node);
    case Kind::kDict:
      return evaluate_dict(node);
    case Kind::kChain:
      return evaluate_chain(node);
    case Kind::kConcat:
      return evaluate_concat(node);
    case Kind::kCompare:
      return evaluate_compare(node);
    case Kind::kAnd:
    case Kind::kOr:
      return evaluate_logical(node);
    case Kind::kNot:
    case Kind::kNegate:
    case Kind::kPlus:
      return evaluate_unary(node);
    case Kind::kCondition:
      return evaluate_condition(node);
    case Kind::kAttribute:
      return evaluate_attribute(node);
    case Kind::kElement:
      return evaluate_element(node);
    case Kind::kSlice:
      return evaluate_slice(node);
    case Kind::kCall:
      return evaluate_call(node);
    case Kind::kFilter:
      return evaluate_filter(node);
    case Kind::kTest:
      break;
  }
  return evaluate_test(node);
}

Result<Value> Interpreter::look_up(const Expression& node) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    SOLI_RETURN_IF_ERROR(context_.work(scope->variables.size() / 16));
    for (const auto& [symbol, value] : scope->variables) {
      if (symbol == node.symbol) return value;
    }
  }
  return Value(Undefined{node.missing});
}

Result<Value> Interpreter::evaluate_sequence(const Expression& node) {
  std::vector<Value> items;
  items.reserve(node.operands.size());
  for (const ExpressionPtr& operand : node.operands) {
    SOLI_ASSIGN_OR_RETURN(Value item, evaluate(*operand));
    items.push_back(std::move(item));
  }
  return node.kind == Expression::Kind::kTuple ? context_.tuple(std::move(items))
                                               : context_.list(std::move(items));
}

Result<Value> Interpreter::evaluate_dict(const Expression& node) {
  std::vector<Dict::Entry> entries;
  entries.reserve(node.operands.size() / 2);
  for (size_t i = 0; i < node.operands.size(); i += 2) {
    SOLI_ASSIGN_OR_RETURN(Value key, evaluate(*node.operands[i]));
    SOLI_ASSIGN_OR_RETURN(Value value, evaluate(*node.operands[i + 1]));
    entries.emplace_back(std::move(key), std::move(value));
  }
  return context_.dict(std::move(entries));
}

Result<Value> Interpreter::evaluate_chain(const Expression& node) {
  SOLI_ASSIGN_OR_RETURN(Value value, evaluate(*node.operands[0]));
  for (size_t i = 1; i < node.operands.size(); ++i) {
    SOLI_ASSIGN_OR_RETURN(const Value operand, evaluate(*node.operands[i]));
    SOLI_ASSIGN_OR_RETURN(value, apply(context_, node.operators[i - 1], value, operand));
  }
  return value;
}

Result<Value> Interpreter::evaluate_concat(const Expression& node) {
  TextBuilder text(context_);
  for (const ExpressionPtr& operand : node.operands) {
    SOLI_ASSIGN_OR_RETURN(const Value value, evaluate(*operand));
    append_value(text, value);
  }
  return text.finish_value();
}

Result<Value> Interpreter::evaluate_compare(const Expression& node) {
  SOLI_ASSIGN_OR_RETURN(Value left, evaluate(*node.operands[0]));
  for (size_t i = 0; i < node.comparisons.size(); ++i) {
    SOLI_ASSIGN_OR_RETURN(Value right, evaluate(*node.operands[i + 1]));
    SOLI_ASSIGN_OR_RETURN(const bool holds, compare(context_, node.comparisons[i], left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

/// As in Python, the value of the operand that decides.
Result<Value> Interpreter::evaluate_logical(const Expression& node) {
  const bool decides = node.kind == Expression::Kind::kOr;
  for (size_t i = 0; i + 1 < node.operands.size(); ++i) {
    SOLI_ASSIGN_OR_RETURN(Value value, evaluate(*node.operands[i]));
    if (value.truthy() == decides) return value;
  }
  return evaluate(*node.operands.back());
}

Result<Value> Interpreter::evaluate_unary(const Expression& node) {
  SOLI_ASSIGN_OR_RETURN(const Value value, evaluate(*node.operands[0]));
  if (node.kind == Expression::Kind::kNot) return Value(!value.truthy());
  return node.kind == Expression::Kind::kNegate ? negate(value) : plus(value);
}

Result<Value> Interpreter::evaluate_condition(const Expression& node) {
  SOLI_ASSIGN_OR_RETURN(const Value condition, evaluate(*node.operands[0]));
  if (condition.truthy()) return evaluate(*node.operands[1]);
  if (node.operands[2] != nullptr) return evaluate(*node.operands[2]);
  return undefined_because("the condition is false, and there is no else");
}

Result<Value> Interpreter::evaluate_attribute(const Expression& node) {
  SOLI_ASSIGN_OR_RETURN(const Value value, evaluate(*node.operands[0]));
  return attribute(context_, value, node.name);
}

Result<Value> Interpreter::evaluate_element(const Expression& node) {
  SOLI_ASSIGN_OR_RETURN(const Value value, evaluate(*node.operands[0]));
  SOLI_ASSIGN_OR_RETURN(const Value index, evaluate(*node.operands[1]));
  return item(context_, value, index);
}

Result<Value> Interpreter::evaluate_slice(const Expression& node) {
  SOLI_ASSIGN_OR_RETURN(const Value value, evaluate(*node.operands[0]));
  Value bounds[3] = {Value(None{}), Value(None{}), Value(None{})};
  for (size_t i = 0; i < 3; ++i) {
    if (node.operands[i + 1] == nullptr) continue;
    SOLI_ASSIGN_OR_RETURN(bounds[i], evaluate(*node.operands[i + 1]));
  }
  return slice(context_, value, bounds[0], bounds[1], bounds[2]);
}

Result<Value> Interpreter::evaluate_filter(const Expression& node) {
  Value subject = block_text_;
  if (node.operands[0] != nullptr) {
    SOLI_ASSIGN_OR_RETURN(subject, evaluate(*node.operands[0]));
  }
  if (node.filter == nullptr) {
    return fail(ErrorKind::kUnsupported, "there is no filter '{}'; there are {}", printable(node.name),
                filter_names());
  }
  Arguments arguments;
  SOLI_RETURN_IF_ERROR(evaluate_arguments(*node.call, arguments));
  return node.filter->apply(context_, subject, arguments);
}

Result<Value> Interpreter::evaluate_test(const Expression& node) {
  SOLI_ASSIGN_OR_RETURN(const Value subject, evaluate(*node.operands[0]));
  if (node.test == nullptr) {
    return fail(ErrorKind::kUnsupported, "there is no test '{}'; there are {}", printable(node.name),
                test_names());
  }
  Arguments arguments;
  SOLI_RETURN_IF_ERROR(evaluate_arguments(*node.call, arguments));
  SOLI_ASSIGN_OR_RETURN(const bool holds, node.test->holds(context_, subject, arguments));
  return Value(holds);
}

Status Interpreter::evaluate_arguments(const Call& call, Arguments& arguments) {
  for (const ExpressionPtr& node : call.positional) {
    SOLI_ASSIGN_OR_RETURN(Value value, evaluate(*node));
    arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, node] : call.named) {
    SOLI_ASSIGN_OR_RETURN(Value value, evaluate(*node));
    arguments.named.emplace_back(name, std::move(value));
  }
  if (call.spread == nullptr && call.spread_named == nullptr) return {};
  return spread(call, arguments);
}

Status Interpreter::spread(const Call& call, Arguments& arguments) {
  if (call.spread != nullptr) {
    SOLI_ASSIGN_OR_RETURN(const Value list, evaluate(*call.spread));
    SOLI_ASSIGN_OR_RETURN(const std::vector<Value> items, elements_of(context_, list));
    arguments.positional.insert(arguments.positional.end(), items.begin(), items.end());
  }
  if (call.spread_named == nullptr) return {};
  SOLI_ASSIGN_OR_RETURN(const Value mapping, evaluate(*call.spread_named));
  if (mapping.dict() == nullptr) {
    return fail(ErrorKind::kInvalidArgument, "** of a {} where a mapping is wanted", type_name(mapping));
  }
  for (const auto& [key, value] : mapping.dict()->entries) {
    if (!key.is_text()) return fail(ErrorKind::kInvalidArgument, "**: a name that is a {}", type_name(key));
    SOLI_RETURN_IF_ERROR(context_.look_at(key.bytes().size()));
    arguments.named.emplace_back(std::string(key.bytes()), value);
  }
  return {};
}

Result<Value> Interpreter::evaluate_call(const Expression& node) {
  SOLI_ASSIGN_OR_RETURN(const Value callee, evaluate(*node.operands[0]));
  Arguments arguments;
  SOLI_RETURN_IF_ERROR(evaluate_arguments(*node.call, arguments));
  return call_object(callee, arguments);
}

Result<Value> Interpreter::call_object(const Value& callee, Arguments& arguments) {
  if (const auto* macro = callee.object_as<Macro>(Object::Kind::kMacro)) return call_macro(*macro, arguments);
  if (const auto* global = callee.object_as<Global>(Object::Kind::kGlobal))
    return global->function(context_, arguments);
  if (const auto* method = callee.object_as<Method>(Object::Kind::kMethod)) {
    return method->function(context_, method->receiver, arguments);
  }
  if (auto* joiner = callee.object_as<Joiner>(Object::Kind::kJoiner)) {
    if (std::exchange(joiner->used, true)) return joiner->separator;
    return context_.text("");
  }
  if (callee.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", callee.why_undefined());
  return fail(ErrorKind::kInvalidArgument, "a {} cannot be called", type_name(callee));
}

Result<Value> Interpreter::call_macro(const Macro& macro, Arguments& arguments) {
  const DepthGuard guard(*this, DepthGuard::kMacro);
  SOLI_RETURN_IF_ERROR(guard.check());
  InnerScope scope(*this, &macro.defined_in);
  SOLI_RETURN_IF_ERROR(bind_macro(macro.syntax, arguments));
  TextBuilder text(context_);
  TextBuilder* const outer = std::exchange(out_, &text);
  const Result<Flow> flow = run_block(macro.syntax.body);
  out_ = outer;
  SOLI_RETURN_IF_ERROR(flow);
  return text.finish_value();
}

/// Gives the arguments to the parameters, in the scope of the macro.
Status Interpreter::bind_macro(const MacroSyntax& macro, Arguments& arguments) {
  const size_t n_positional = std::min(arguments.positional.size(), macro.parameters.size());
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const MacroSyntax::Parameter& parameter = macro.parameters[i];
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& one) { return one.first == parameter.name; });
    SOLI_RETURN_IF_ERROR(context_.work(arguments.named.size() + 1));
    Value value = undefined_because(fmt::format("parameter '{}' was not provided", parameter.name));
    if (i < n_positional) {
      value = arguments.positional[i];
    } else if (named != arguments.named.end()) {
      value = std::move(named->second);
      arguments.named.erase(named);
    } else if (parameter.fallback != nullptr) {
      SOLI_ASSIGN_OR_RETURN(value, evaluate(*parameter.fallback));
    }
    scope_->variables.emplace_back(parameter.symbol, std::move(value));
  }
  return bind_rest(macro, arguments, n_positional);
}

/// The caller, varargs and kwargs of a macro.
Status Interpreter::bind_rest(const MacroSyntax& macro, Arguments& arguments, size_t n_positional) {
  Value caller = undefined_because("no caller is defined");
  for (auto named = arguments.named.begin(); named != arguments.named.end(); ++named) {
    if (named->first != "caller") continue;
    caller = std::move(named->second);
    arguments.named.erase(named);
    break;
  }
  const auto is_caller = [&](const auto& parameter) { return parameter.name == "caller"; };
  if (caller_symbol_ != Symbols::kNone &&
      std::none_of(macro.parameters.begin(), macro.parameters.end(), is_caller)) {
    scope_->variables.emplace_back(caller_symbol_, std::move(caller));
  }
  if (macro.takes_rest) {
    SOLI_ASSIGN_OR_RETURN(Value rest,
                          context_.tuple({arguments.positional.begin() + static_cast<ptrdiff_t>(n_positional),
                                          arguments.positional.end()}));
    scope_->variables.emplace_back(varargs_symbol_, std::move(rest));
  } else if (arguments.positional.size() > n_positional) {
    return fail(ErrorKind::kInvalidArgument, "macro '{}': {} arguments; it takes {}", macro.name,
                arguments.positional.size(), macro.parameters.size());
  }
  if (macro.takes_rest_named) {
    Arguments named;
    named.named = std::move(arguments.named);
    std::vector<Dict::Entry> entries;
    for (auto& [name, value] : named.named) {
      SOLI_ASSIGN_OR_RETURN(Value key, context_.text(name));
      entries.emplace_back(std::move(key), std::move(value));
    }
    SOLI_ASSIGN_OR_RETURN(Value rest, context_.dict(std::move(entries)));
    scope_->variables.emplace_back(kwargs_symbol_, std::move(rest));
  } else if (!arguments.named.empty()) {
    return fail(ErrorKind::kInvalidArgument, "macro '{}' takes no argument '{}'", macro.name,
                arguments.named.front().first);
  }
  return {};
}

}  // namespace soli::jinja
