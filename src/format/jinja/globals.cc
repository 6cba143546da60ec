// The functions that are there in every template.
#include <array>

#include "base/utf8.h"
#include "format/jinja/objects.h"
#include "format/jinja/operators.h"
#include "format/jinja/printing.h"

namespace soli::jinja {
namespace {

Result<Value> range(Context& context, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("range", arguments, {"start", "stop", "step"}, 1));
  SOLI_ASSIGN_OR_RETURN(const int64_t first, int_argument("range", bound[0], 0));
  SOLI_ASSIGN_OR_RETURN(const int64_t second, int_argument("range", bound[1], 0));
  SOLI_ASSIGN_OR_RETURN(const int64_t step, int_argument("range", bound[2], 1));
  const int64_t start = bound.has(1) ? first : 0;
  const int64_t stop = bound.has(1) ? second : first;
  if (step == 0) return fail(ErrorKind::kInvalidArgument, "range: a step of 0");
  const __int128 span = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
  const __int128 stride = step > 0 ? static_cast<__int128>(step) : -static_cast<__int128>(step);
  const __int128 n = span > 0 ? (span - 1) / stride + 1 : 0;
  if (n > static_cast<__int128>(kMaxRange)) {
    return fail(ErrorKind::kLimit, "range: more than the {} elements allowed", kMaxRange);
  }
  SOLI_RETURN_IF_ERROR(context.room_for(static_cast<size_t>(n) * kValueBytes));
  std::vector<Value> items;
  items.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < static_cast<int64_t>(n); ++i) items.push_back(Value(start + i * step));
  return context.list(std::move(items));
}

/// The entries of an optional mapping, then the named arguments.
Result<std::vector<Dict::Entry>> entries_of(Context& context, std::string_view function,
                                            const Arguments& arguments) {
  std::vector<Dict::Entry> entries;
  if (arguments.positional.size() > 1 ||
      (!arguments.positional.empty() && arguments.positional[0].dict() == nullptr)) {
    return fail(ErrorKind::kInvalidArgument, "{}: it takes one mapping, and arguments with names", function);
  }
  if (!arguments.positional.empty()) entries = arguments.positional[0].dict()->entries;
  for (const auto& [name, value] : arguments.named) {
    SOLI_ASSIGN_OR_RETURN(Value key, context.text(name));
    entries.emplace_back(std::move(key), value);
  }
  return entries;
}

Result<Value> make_dict(Context& context, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(std::vector<Dict::Entry> entries, entries_of(context, "dict", arguments));
  return context.dict(std::move(entries));
}

Result<Value> make_namespace(Context& context, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(std::vector<Dict::Entry> entries, entries_of(context, "namespace", arguments));
  SOLI_ASSIGN_OR_RETURN(const Value dict, context.dict(std::move(entries)));
  size_t bytes = sizeof(Namespace);
  for (const auto& [key, value] : dict.dict()->entries) {
    if (!key.is_text())
      return fail(ErrorKind::kInvalidArgument, "namespace: a name that is a {}", type_name(key));
    bytes += sizeof(std::pair<std::string, Value>) + key.bytes().size();
  }
  SOLI_RETURN_IF_ERROR(context.room_for(bytes));
  auto made = std::make_shared<Namespace>(context.meter(), bytes);
  const Value space{std::shared_ptr<Object>(made)};
  for (const auto& [key, value] : dict.dict()->entries) {
    SOLI_RETURN_IF_ERROR(set_attribute(space, std::string(key.bytes()), value));
  }
  return space;
}

Result<Value> make_joiner(Context& context, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("joiner", arguments, {"sep"}));
  SOLI_ASSIGN_OR_RETURN(Value separator, bound.has(0) ? to_text(context, bound[0]) : context.text(", "));
  SOLI_RETURN_IF_ERROR(context.room_for(sizeof(Joiner)));
  return Value(std::shared_ptr<Object>(std::make_shared<Joiner>(context.meter(), std::move(separator))));
}

Result<Value> make_cycler(Context& context, const Arguments& arguments) {
  if (arguments.positional.empty() || !arguments.named.empty()) {
    return fail(ErrorKind::kInvalidArgument, "cycler: no items to go round");
  }
  SOLI_RETURN_IF_ERROR(context.room_for(sizeof(Cycler) + arguments.positional.size() * kValueBytes));
  return Value(std::shared_ptr<Object>(std::make_shared<Cycler>(context.meter(), arguments.positional)));
}

/// The template's own error.
Result<Value> raise_exception(Context& context, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("raise_exception", arguments, {"message"}, 1));
  TextBuilder shown(context);
  append_value(shown, bound[0]);
  SOLI_ASSIGN_OR_RETURN(const std::string message, shown.finish());
  constexpr size_t kMaxMessageBytes = 2000;
  return fail(ErrorKind::kInvalidArgument, "{}", printable(message, kMaxMessageBytes));
}

Result<Value> show_now(Context& context, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("strftime_now", arguments, {"format"}, 1));
  SOLI_ASSIGN_OR_RETURN(const std::string_view format, text_argument("strftime_now", bound[0], ""));
  if (format.find('\0') != std::string_view::npos || format.size() > kMaxWidth) {
    return fail(ErrorKind::kInvalidArgument,
                "strftime_now: the format has a zero byte, or more than {} bytes", kMaxWidth);
  }
  // A width within a conversion (%999999d) would make the text as long as it says.
  for (size_t i = 0; i + 1 < format.size(); ++i) {
    if (format[i] != '%') continue;
    ++i;
    if (std::string_view("-_0^#").find(format[i]) != std::string_view::npos && i + 1 < format.size()) ++i;
    if (format[i] >= '0' && format[i] <= '9') {
      return fail(ErrorKind::kInvalidArgument, "strftime_now: '{}' has a width", printable(format));
    }
  }
  const std::tm now = context.now();
  const std::string terminated = std::string(format) + "x";  // so that an empty result is no failure
  std::string out(terminated.size() * 64, '\0');
  out.resize(std::strftime(out.data(), out.size(), terminated.c_str(), &now));
  if (out.empty())
    return fail(ErrorKind::kInvalidArgument, "strftime_now: '{}' is no format", printable(format));
  out.pop_back();
  return context.text(std::move(out));
}

constexpr GlobalFunction kFunctions[] = {
    {"cycler", make_cycler},       {"dict", make_dict}, {"joiner", make_joiner},
    {"namespace", make_namespace}, {"range", range},    {"raise_exception", raise_exception},
    {"strftime_now", show_now},
};

}  // namespace

std::span<const GlobalFunction> global_functions() { return kFunctions; }

}  // namespace soli::jinja
