#pragma once

// What templates call and change: functions, macros, namespaces, loops.

#include <string>
#include <utility>
#include <vector>

#include "format/jinja/filters.h"
#include "format/jinja/syntax.h"

namespace soli::jinja {

struct Scope;

/// namespace(): the one thing whose attributes a template may set.
struct Namespace : Object {
  Namespace(Meter& meter, size_t bytes) : Object(Kind::kNamespace, meter, bytes) {}
  Value* find(std::string_view name);

  std::vector<std::pair<std::string, Value>> attributes;
};

/// The variable `loop`.
struct Loop : Object {
  Loop(Meter& meter, std::vector<Value> elements)
      : Object(Kind::kLoop, meter, sizeof(Loop) + elements.capacity() * kValueBytes),
        items(std::move(elements)) {}

  std::vector<Value> items;
  size_t index = 0;
  std::vector<Value> last_seen;  // by changed()
  bool has_seen = false;
};

/// joiner(): "" at the first call, the separator at every other.
struct Joiner : Object {
  Joiner(Meter& meter, Value between)
      : Object(Kind::kJoiner, meter, sizeof(Joiner)), separator(std::move(between)) {}

  Value separator;
  bool used = false;
};

/// cycler(): goes round its items.
struct Cycler : Object {
  Cycler(Meter& meter, std::vector<Value> values)
      : Object(Kind::kCycler, meter, sizeof(Cycler) + values.capacity() * kValueBytes),
        items(std::move(values)) {}

  std::vector<Value> items;
  size_t index = 0;
};

/// A macro, or the body of a call block. The scope that it was defined in is kept by the interpreter.
struct Macro : Object {
  Macro(Meter& meter, const MacroSyntax& its_syntax, Scope& scope)
      : Object(Kind::kMacro, meter, sizeof(Macro)), syntax(its_syntax), defined_in(scope) {}
  bool holds_state() const override { return false; }

  const MacroSyntax& syntax;
  Scope& defined_in;
};

/// A function that is there in every template.
struct Global : Object {
  using Function = Result<Value> (*)(Context& context, const Arguments& arguments);
  Global(Meter& meter, Function its_function)
      : Object(Kind::kGlobal, meter, sizeof(Global)), function(its_function) {}
  bool holds_state() const override { return false; }

  const Function function;
};

/// A method together with the value that it belongs to.
struct Method : Object {
  using Function = Result<Value> (*)(Context& context, const Value& subject, const Arguments& arguments);
  Method(Meter& meter, Value its_receiver, Function its_function)
      : Object(Kind::kMethod, meter, sizeof(Method)),
        receiver(std::move(its_receiver)),
        function(its_function) {}
  bool holds_state() const override { return receiver.holds_state(); }

  const Value receiver;
  const Function function;
};

struct GlobalFunction {
  std::string_view name;
  Global::Function function;
};
/// range, dict, namespace, joiner, cycler, raise_exception and strftime_now.
std::span<const GlobalFunction> global_functions();

/// value.name: methods before keys, as in Jinja; undefined where there is neither, and for methods
/// that would change the value. There is no way from a value to what it is made of. Fails for an undefined
/// value.
Result<Value> attribute(Context& context, const Value& value, std::string_view name);
/// value[index], where a string also finds what value.index would; keys before methods.
Result<Value> item(Context& context, const Value& value, const Value& index);

/// Sets an attribute of a namespace. What can change may not be put there: a value could come to hold itself.
Status set_attribute(const Value& target, const std::string& name, Value value);

}  // namespace soli::jinja
