#include "format/jinja/objects.h"

#include "base/utf8.h"
#include "format/jinja/methods.h"
#include "format/jinja/operators.h"

namespace soli::jinja {
namespace {

Result<Value> cycle_loop(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  const Loop& loop = *subject.object_as<Loop>(Object::Kind::kLoop);
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return fail(ErrorKind::kInvalidArgument, "loop.cycle: no items to go round");
  }
  return arguments.positional[loop.index % arguments.positional.size()];
}

/// Whether the arguments differ from those of the last call.
Result<Value> changed_in_loop(Context& context, const Value& subject, const Arguments& arguments) {
  Loop& loop = *subject.object_as<Loop>(Object::Kind::kLoop);
  for (const Value& value : arguments.positional) {
    if (value.holds_state()) return fail(ErrorKind::kInvalidArgument, "loop.changed: a {}", type_name(value));
  }
  bool changed = !loop.has_seen || loop.last_seen.size() != arguments.positional.size();
  for (size_t i = 0; i < arguments.positional.size() && !changed; ++i) {
    SOLI_ASSIGN_OR_RETURN(const bool same, equal(context, loop.last_seen[i], arguments.positional[i]));
    changed = !same;
  }
  loop.has_seen = true;
  loop.last_seen = arguments.positional;
  return Value(changed);
}

Result<Value> next_of_cycler(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("cycler.next", arguments, {}));
  Cycler& cycler = *subject.object_as<Cycler>(Object::Kind::kCycler);
  Value current = cycler.items[cycler.index];
  cycler.index = (cycler.index + 1) % cycler.items.size();
  return current;
}

Result<Value> reset_cycler(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("cycler.reset", arguments, {}));
  subject.object_as<Cycler>(Object::Kind::kCycler)->index = 0;
  return Value(None{});
}

Result<Value> make_method(Context& context, const Value& receiver, Method::Function function) {
  SOLI_RETURN_IF_ERROR(context.room_for(sizeof(Method)));
  return Value(std::shared_ptr<Object>(std::make_shared<Method>(context.meter(), receiver, function)));
}

Result<Value> loop_attribute(Context& context, const Value& value, std::string_view name) {
  const Loop& loop = *value.object_as<Loop>(Object::Kind::kLoop);
  const auto index = static_cast<int64_t>(loop.index);
  const auto n = static_cast<int64_t>(loop.items.size());
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(n - index);
  if (name == "revindex0") return Value(n - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index == n - 1);
  if (name == "length") return Value(n);
  if (name == "depth") return Value(int64_t{1});
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem") {
    return index > 0 ? loop.items[loop.index - 1]
                     : undefined_because("loop.previtem: this is the first item");
  }
  if (name == "nextitem") {
    return index + 1 < n ? loop.items[loop.index + 1]
                         : undefined_because("loop.nextitem: this is the last item");
  }
  if (name == "cycle") return make_method(context, value, cycle_loop);
  if (name == "changed") return make_method(context, value, changed_in_loop);
  return missing_attribute(value, name);
}

Result<Value> object_attribute(Context& context, const Value& value, std::string_view name) {
  if (auto* const space = value.object_as<Namespace>(Object::Kind::kNamespace)) {
    const Value* const found = space->find(name);
    return found != nullptr ? *found : missing_attribute(value, name);
  }
  if (value.object_as<Loop>(Object::Kind::kLoop) != nullptr) return loop_attribute(context, value, name);
  if (auto* const cycler = value.object_as<Cycler>(Object::Kind::kCycler)) {
    if (name == "current") return cycler->items[cycler->index];
    if (name == "next") return make_method(context, value, next_of_cycler);
    if (name == "reset") return make_method(context, value, reset_cycler);
  }
  if (auto* const macro = value.object_as<Macro>(Object::Kind::kMacro)) {
    if (name == "name") return context.text(macro->syntax.name);
  }
  return missing_attribute(value, name);
}

}  // namespace

Value* Namespace::find(std::string_view name) {
  for (auto& [candidate, value] : attributes) {
    if (candidate == name) return &value;
  }
  return nullptr;
}

Result<Value> attribute(Context& context, const Value& value, std::string_view name) {
  if (value.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", value.why_undefined());
  if (value.object() != nullptr) return object_attribute(context, value, name);
  if (const Filter* const method = find_method(value, name))
    return make_method(context, value, method->apply);
  if (is_changing_method(value, name)) {
    return undefined_because(
        fmt::format("'{}' would change a {}; a template must not", name, type_name(value)));
  }
  if (const Dict* const dict = value.dict()) {
    if (const Value* const found = dict->find(name)) return *found;
  }
  // The pairs that groupby gives have names in Python.
  if (const List* const list = value.list(); list != nullptr && list->is_tuple && list->items.size() == 2) {
    if (name == "grouper") return list->items[0];
    if (name == "list") return list->items[1];
  }
  return missing_attribute(value, name);
}

Result<Value> item(Context& context, const Value& value, const Value& index) {
  if (!index.is_text() || value.is_undefined()) return element(context, value, index);
  if (value.object() != nullptr) return object_attribute(context, value, index.bytes());
  if (const Dict* const dict = value.dict()) {
    SOLI_RETURN_IF_ERROR(context.work(1));
    if (const Value* const found = dict->find(index.bytes())) return *found;
  }
  return attribute(context, value, index.bytes());
}

Status set_attribute(const Value& target, const std::string& name, Value value) {
  auto* const space = target.object_as<Namespace>(Object::Kind::kNamespace);
  if (space == nullptr) {
    return fail(ErrorKind::kInvalidArgument, "only attributes of a namespace can be set, not '{}' of a {}",
                printable(name), type_name(target));
  }
  if (value.holds_state()) {
    return fail(ErrorKind::kInvalidArgument, "'{}' of a namespace cannot be a {}, which can change",
                printable(name), type_name(value));
  }
  if (Value* const found = space->find(name)) {
    *found = std::move(value);
  } else {
    space->attributes.emplace_back(name, std::move(value));
  }
  return {};
}

}  // namespace soli::jinja
