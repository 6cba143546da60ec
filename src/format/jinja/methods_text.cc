// Methods of strings that give other strings.
#include <algorithm>

#include "format/jinja/format_text.h"
#include "format/jinja/methods.h"
#include "format/jinja/operators.h"
#include "format/jinja/printing.h"
#include "format/jinja/unicode.h"

namespace soli::jinja {
namespace {

/// A method without arguments that maps the text.
template <std::string (*kMap)(std::string_view)>
Result<Value> mapped(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("string method", arguments, {}));
  // No case mapping makes a character more than three times as long.
  SOLI_RETURN_IF_ERROR(context.room_for(3 * subject.bytes().size()));
  SOLI_RETURN_IF_ERROR(context.work(subject.bytes().size()));
  return context.text(kMap(subject.bytes()));
}

std::string capitalised(std::string_view text) {
  if (text.empty()) return {};
  size_t bytes = 0;
  std::string out;
  append_upper(out, front(text, bytes));
  return out + to_lower(text.substr(bytes));
}

/// Every letter that follows none begins a word.
std::string titled(std::string_view text) {
  std::string out;
  bool in_word = false;
  while (!text.empty()) {
    size_t bytes = 0;
    const uint32_t c = front(text, bytes);
    if (in_word) {
      append_lower(out, c);
    } else {
      append_upper(out, c);
    }
    in_word = is_letter(c);
    text.remove_prefix(bytes);
  }
  return out;
}

std::string swapped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    size_t bytes = 0;
    const uint32_t c = front(text, bytes);
    if (is_upper(c)) {
      append_lower(out, c);
    } else {
      out += to_upper(text.substr(0, bytes));
    }
    text.remove_prefix(bytes);
  }
  return out;
}

enum class Side { kLeft, kRight, kBoth };

template <Side kSide>
Result<Value> strip(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("strip", arguments, {"chars"}));
  const bool has_set = bound.has(0) && !bound[0].is_none();
  SOLI_ASSIGN_OR_RETURN(const std::string_view set,
                        text_argument("strip: chars", has_set ? bound[0] : Value(), ""));
  SOLI_RETURN_IF_ERROR(context.room_for(set.size() * sizeof(uint32_t) + subject.bytes().size()));
  SOLI_RETURN_IF_ERROR(context.work(set.size()));
  SOLI_RETURN_IF_ERROR(context.work(subject.bytes().size() / 8));
  const Stripper stripper = has_set ? Stripper(set) : Stripper();
  const std::string_view text = subject.bytes();
  const std::string_view stripped = kSide == Side::kLeft    ? stripper.left(text)
                                    : kSide == Side::kRight ? stripper.right(text)
                                                            : stripper.both(text);
  if (stripped.size() == text.size()) return subject;
  return context.text(std::string(stripped));
}

Result<Value> replace(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("replace", arguments, {"old", "new", "count"}, 2));
  SOLI_ASSIGN_OR_RETURN(const std::string_view old, text_argument("replace: old", bound[0], ""));
  SOLI_ASSIGN_OR_RETURN(const std::string_view by, text_argument("replace: new", bound[1], ""));
  SOLI_ASSIGN_OR_RETURN(int64_t count,
                        int_argument("replace: count", bound[2].is_none() ? Value() : bound[2], -1));
  if (count < 0) count = INT64_MAX;
  std::string_view text = subject.bytes();
  SOLI_RETURN_IF_ERROR(context.look_at(text.size() + old.size()));
  TextBuilder out(context);
  while (count > 0 && !out.failed()) {
    const size_t place = find_first(text, old);
    if (place == std::string_view::npos) break;
    out.append(text.substr(0, place));
    out.append(by);
    text.remove_prefix(place + old.size());
    --count;
    if (old.empty()) {  // between all characters, and at both ends
      if (text.empty()) break;
      size_t bytes = 0;
      front(text, bytes);
      out.append(text.substr(0, bytes));
      text.remove_prefix(bytes);
    }
  }
  out.append(text);
  return out.finish_value();
}

Result<Value> join(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("join", arguments, {"iterable"}, 1));
  SOLI_ASSIGN_OR_RETURN(const std::vector<Value> items, elements_of(context, bound[0]));
  TextBuilder out(context);
  for (size_t i = 0; i < items.size() && !out.failed(); ++i) {
    if (!items[i].is_text()) {
      return fail(ErrorKind::kInvalidArgument, "join: element {} is a {} where a string is wanted", i,
                  type_name(items[i]));
    }
    if (i > 0) out.append(subject.bytes());
    out.append(items[i].bytes());
  }
  return out.finish_value();
}

Result<Value> format(Context& context, const Value& subject, const Arguments& arguments) {
  return format_braces(context, subject.bytes(), arguments);
}

/// Pads to a width in characters; where both sides are padded, the odd one goes where Python puts it.
template <Side kSide>
Result<Value> pad(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("padding", arguments, {"width", "fillchar"}, 1));
  SOLI_ASSIGN_OR_RETURN(const size_t width, width_argument("padding: width", bound[0], 0));
  SOLI_ASSIGN_OR_RETURN(const std::string_view fill, text_argument("padding: fillchar", bound[1], " "));
  size_t fill_bytes = 0;
  if (!fill.empty()) front(fill, fill_bytes);
  if (fill.empty() || fill_bytes != fill.size()) {
    return fail(ErrorKind::kInvalidArgument, "padding: fillchar is one character");
  }
  SOLI_RETURN_IF_ERROR(context.look_at(subject.bytes().size()));
  const size_t n = count_characters(*subject.text());
  const size_t padding = width > n ? width - n : 0;
  const size_t left = kSide == Side::kLeft    ? padding
                      : kSide == Side::kRight ? 0
                                              : padding / 2 + (padding & width & 1);
  TextBuilder out(context);
  for (size_t i = 0; i < left; ++i) out.append(fill);
  out.append(subject.bytes());
  for (size_t i = left; i < padding; ++i) out.append(fill);
  return out.finish_value();
}

Result<Value> fill_with_zeros(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("zfill", arguments, {"width"}, 1));
  SOLI_ASSIGN_OR_RETURN(const size_t width, width_argument("zfill: width", bound[0], 0));
  SOLI_RETURN_IF_ERROR(context.look_at(subject.bytes().size()));
  const size_t n = count_characters(*subject.text());
  const std::string_view text = subject.bytes();
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  TextBuilder out(context);
  out.append(text.substr(0, sign));
  out.append(width > n ? width - n : 0, '0');
  out.append(text.substr(sign));
  return out.finish_value();
}

template <bool kPrefix>
Result<Value> remove_affix(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("removeprefix or removesuffix", arguments, {"affix"}, 1));
  SOLI_ASSIGN_OR_RETURN(const std::string_view affix,
                        text_argument("removeprefix or removesuffix", bound[0], ""));
  const std::string_view text = subject.bytes();
  if (kPrefix ? !text.starts_with(affix) : !text.ends_with(affix)) return subject;
  SOLI_RETURN_IF_ERROR(context.room_for(text.size()));
  return context.text(
      std::string(kPrefix ? text.substr(affix.size()) : text.substr(0, text.size() - affix.size())));
}

constexpr Filter kTextMethods[] = {
    {"capitalize", mapped<capitalised>},
    {"casefold", mapped<to_lower>},
    {"center", pad<Side::kBoth>},
    {"format", format},
    {"join", join},
    {"ljust", pad<Side::kRight>},
    {"lower", mapped<to_lower>},
    {"lstrip", strip<Side::kLeft>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"replace", replace},
    {"rjust", pad<Side::kLeft>},
    {"rstrip", strip<Side::kRight>},
    {"strip", strip<Side::kBoth>},
    {"swapcase", mapped<swapped>},
    {"title", mapped<titled>},
    {"upper", mapped<to_upper>},
    {"zfill", fill_with_zeros},
};

}  // namespace

std::span<const Filter> text_methods() { return kTextMethods; }

}  // namespace soli::jinja
