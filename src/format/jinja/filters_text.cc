// Filters that give text. Each takes any value, which is shown as text first.
#include <algorithm>

#include "format/jinja/format_text.h"
#include "format/jinja/methods.h"
#include "format/jinja/operators.h"
#include "format/jinja/printing.h"
#include "format/jinja/unicode.h"

namespace soli::jinja {
namespace {

/// A filter that is the method of strings with that name.
template <const char* kMethod>
Result<Value> by_method(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Value text, to_text(context, subject));
  return find_method(text, kMethod)->apply(context, text, arguments);
}

constexpr char kCapitalize[] = "capitalize";
constexpr char kLower[] = "lower";
constexpr char kStrip[] = "strip";
constexpr char kUpper[] = "upper";

Result<Value> replace_filter(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("replace", arguments, {"old", "new", "count"}, 2));
  SOLI_ASSIGN_OR_RETURN(const Value text, to_text(context, subject));
  Arguments texts;
  for (size_t i = 0; i < 2; ++i) {
    SOLI_ASSIGN_OR_RETURN(Value shown, to_text(context, bound[i]));
    texts.positional.push_back(std::move(shown));
  }
  if (bound.has(2)) texts.positional.push_back(bound[2]);
  return find_method(text, "replace")->apply(context, text, texts);
}

Result<Value> center(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("center", arguments, {"width"}));
  SOLI_ASSIGN_OR_RETURN(const Value text, to_text(context, subject));
  Arguments width;
  width.positional.push_back(bound.has(0) ? bound[0] : Value(int64_t{80}));
  return find_method(text, "center")->apply(context, text, width);
}

Result<Value> format_filter(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Value text, to_text(context, subject));
  if (!arguments.named.empty() && !arguments.positional.empty()) {
    return fail(ErrorKind::kInvalidArgument, "format: arguments with and without names do not go together");
  }
  if (arguments.named.empty()) {
    SOLI_ASSIGN_OR_RETURN(const Value values, context.tuple(arguments.positional));
    return format_percent(context, text.bytes(), values);
  }
  std::vector<Dict::Entry> entries;
  for (const auto& [name, value] : arguments.named) {
    SOLI_ASSIGN_OR_RETURN(Value key, context.text(name));
    entries.emplace_back(std::move(key), value);
  }
  SOLI_ASSIGN_OR_RETURN(const Value values, context.dict(std::move(entries)));
  return format_percent(context, text.bytes(), values);
}

/// Words begin after a blank and after - ( { [ <.
Result<Value> title(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("title", arguments, {}));
  SOLI_ASSIGN_OR_RETURN(const Value text, to_text(context, subject));
  SOLI_RETURN_IF_ERROR(context.work(text.bytes().size()));
  SOLI_RETURN_IF_ERROR(context.room_for(3 * text.bytes().size()));
  std::string out;
  bool begins = true;
  for (std::string_view rest = text.bytes(); !rest.empty();) {
    size_t bytes = 0;
    const uint32_t c = front(rest, bytes);
    if (begins) {
      out += to_upper(rest.substr(0, bytes));
    } else {
      append_lower(out, c);
    }
    begins = is_space(c) ||
             (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
    rest.remove_prefix(bytes);
  }
  return context.text(std::move(out));
}

Result<Value> string(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("string", arguments, {}));
  return to_text(context, subject);
}

Result<Value> mark(Context& context, const Value& subject, bool escapes) {
  TextBuilder shown(context);
  append_value(shown, subject);
  SOLI_ASSIGN_OR_RETURN(std::string text, shown.finish());
  if (!escapes) return context.text(std::move(text), true);
  TextBuilder out(context);
  append_escaped(out, text);
  SOLI_ASSIGN_OR_RETURN(std::string escaped, out.finish());
  return context.text(std::move(escaped), true);
}

Result<Value> safe(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("safe", arguments, {}));
  return mark(context, subject, false);
}

Result<Value> escape(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("escape", arguments, {}));
  if (subject.is_text() && subject.text()->is_markup) return subject;
  return mark(context, subject, true);
}

Result<Value> force_escape(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("forceescape", arguments, {}));
  return mark(context, subject, true);
}

Result<Value> indent(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("indent", arguments, {"width", "first", "blank"}));
  if (subject.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", subject.why_undefined());
  std::string indentation;
  if (bound[0].is_text()) {
    indentation = bound[0].bytes();
  } else {
    SOLI_ASSIGN_OR_RETURN(const size_t width, width_argument("indent: width", bound[0], 4));
    indentation.assign(width, ' ');
  }
  SOLI_ASSIGN_OR_RETURN(const Value value, to_text(context, subject));
  const std::string text = std::string(value.bytes()) + "\n";  // so that a line end at the end stays one
  SOLI_RETURN_IF_ERROR(context.work(text.size() / 4));
  SOLI_RETURN_IF_ERROR(context.room_for(text.size() * sizeof(std::string_view)));
  const std::vector<std::string_view> lines = lines_of(text, false);
  const bool blank = bound.truthy_or(2, false);
  TextBuilder out(context);
  for (size_t i = 0; i < lines.size() && !out.failed(); ++i) {
    if (i > 0) out.append(1, '\n');
    if (i == 0 ? bound.truthy_or(1, false) : blank || !lines[i].empty()) out.append(indentation);
    out.append(lines[i]);
  }
  return out.finish_value();
}

/// Cuts to a length, at the end of a word unless `killwords`, with an ellipsis; a little more is let pass.
Result<Value> truncate(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound,
                        bind("truncate", arguments, {"length", "killwords", "end", "leeway"}));
  SOLI_ASSIGN_OR_RETURN(const int64_t length, int_argument("truncate: length", bound[0], 255));
  SOLI_ASSIGN_OR_RETURN(const std::string_view end, text_argument("truncate: end", bound[2], "..."));
  SOLI_ASSIGN_OR_RETURN(const int64_t leeway, int_argument("truncate: leeway", bound[3], 5));
  SOLI_ASSIGN_OR_RETURN(const Value text, to_text(context, subject));
  SOLI_RETURN_IF_ERROR(context.look_at(text.bytes().size()));
  const auto n_end = static_cast<int64_t>(count_characters(Text(std::string(end))));
  if (leeway < 0 || length < n_end || length > INT64_MAX - leeway) {
    return fail(ErrorKind::kInvalidArgument, "truncate: length {} with an end of {} and leeway {}", length,
                n_end, leeway);
  }
  if (static_cast<int64_t>(count_characters(*text.text())) <= length + leeway) return text;
  std::string_view kept =
      text.bytes().substr(0, offset_of(*text.text(), static_cast<size_t>(length - n_end)));
  if (!bound.truthy_or(1, false)) kept = kept.substr(0, kept.rfind(' '));
  return context.text(std::string(kept) + std::string(end));
}

Result<Value> count_words(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("wordcount", arguments, {}));
  SOLI_ASSIGN_OR_RETURN(const Value text, to_text(context, subject));
  SOLI_RETURN_IF_ERROR(context.work(text.bytes().size()));
  int64_t n = 0;
  bool in_word = false;
  for (std::string_view rest = text.bytes(); !rest.empty();) {
    size_t bytes = 0;
    const uint32_t c = front(rest, bytes);
    const bool is_word = c == '_' || is_letter(c) || is_digit(c);
    n += is_word && !in_word ? 1 : 0;
    in_word = is_word;
    rest.remove_prefix(bytes);
  }
  return Value(n);
}

constexpr Filter kTextFilters[] = {
    {"capitalize", by_method<kCapitalize>},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"forceescape", force_escape},
    {"format", format_filter},
    {"indent", indent},
    {"lower", by_method<kLower>},
    {"replace", replace_filter},
    {"safe", safe},
    {"string", string},
    {"title", title},
    {"trim", by_method<kStrip>},
    {"truncate", truncate},
    {"upper", by_method<kUpper>},
    {"wordcount", count_words},
};

}  // namespace

std::span<const Filter> text_filters() { return kTextFilters; }

}  // namespace soli::jinja
