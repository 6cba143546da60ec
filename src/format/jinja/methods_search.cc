// Methods of strings that look for something, or cut where they find it.
#include <algorithm>

#include "format/jinja/methods.h"
#include "format/jinja/operators.h"
#include "format/jinja/tests.h"
#include "format/jinja/unicode.h"

namespace soli::jinja {
namespace {

/// Arguments of find() and its like: what to find, and the part of the text to find it in.
struct Search {
  std::string_view part;
  std::string_view within;
  size_t first = 0;      // characters before `within`
  bool possible = true;  // false: the bounds leave no place, not even for ""
};

Result<size_t> search_bound(const Value& value, int64_t n, int64_t fallback) {
  SOLI_ASSIGN_OR_RETURN(int64_t index,
                        int_argument("find: bound", value.is_none() ? Value() : value, fallback));
  if (index < 0) index = std::max<int64_t>(index + n, 0);
  return static_cast<size_t>(index);
}

Result<Search> read_search(std::string_view method, Context& context, const Value& subject,
                           const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind(method, arguments, {"sub", "start", "end"}, 1));
  Search search;
  SOLI_ASSIGN_OR_RETURN(search.part, text_argument(method, bound[0], ""));
  const Text& text = *subject.text();
  SOLI_RETURN_IF_ERROR(context.look_at(2 * text.bytes.size() + search.part.size()));
  SOLI_RETURN_IF_ERROR(context.room_for(text.bytes.size() + search.part.size()));
  const size_t n = count_characters(text);
  SOLI_ASSIGN_OR_RETURN(search.first, search_bound(bound[1], static_cast<int64_t>(n), 0));
  SOLI_ASSIGN_OR_RETURN(size_t last,
                        search_bound(bound[2], static_cast<int64_t>(n), static_cast<int64_t>(n)));
  last = std::min(last, n);
  search.possible = search.first <= last;
  if (search.possible) {
    const size_t begin = offset_of(text, search.first);
    search.within = std::string_view(text.bytes).substr(begin, offset_of(text, last) - begin);
  }
  return search;
}

Result<int64_t> find_place(std::string_view method, bool from_end, Context& context, const Value& subject,
                           const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Search search, read_search(method, context, subject, arguments));
  if (!search.possible) return -1;
  const size_t place =
      from_end ? find_last(search.within, search.part) : find_first(search.within, search.part);
  if (place == std::string_view::npos) return -1;
  const Text before{std::string(search.within.substr(0, place))};
  return static_cast<int64_t>(search.first + count_characters(before));
}

template <bool kFromEnd>
Result<Value> find(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const int64_t place,
                        find_place(kFromEnd ? "rfind" : "find", kFromEnd, context, subject, arguments));
  return Value(place);
}

template <bool kFromEnd>
Result<Value> index(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const int64_t place,
                        find_place(kFromEnd ? "rindex" : "index", kFromEnd, context, subject, arguments));
  if (place < 0) return fail(ErrorKind::kInvalidArgument, "index: the string does not occur");
  return Value(place);
}

Result<Value> count(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Search search, read_search("count", context, subject, arguments));
  if (!search.possible) return Value(int64_t{0});
  if (search.part.empty()) {
    return Value(static_cast<int64_t>(count_characters(Text(std::string(search.within))) + 1));
  }
  int64_t n = 0;
  for (size_t place = find_first(search.within, search.part); place != std::string_view::npos;
       place = find_first(search.within, search.part, place + search.part.size())) {
    ++n;
  }
  return Value(n);
}

template <bool kAtEnd>
Result<Value> has_affix(Context& context, const Value& subject, const Arguments& arguments) {
  constexpr std::string_view kName = kAtEnd ? "endswith" : "startswith";
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind(kName, arguments, {"affix", "start", "end"}, 1));
  Arguments one;
  one.positional = {bound[0], bound[1], bound[2]};
  std::vector<Value> affixes = {bound[0]};
  if (const List* const list = bound[0].list(); list != nullptr && list->is_tuple) affixes = list->items;
  for (const Value& affix : affixes) {
    if (!affix.is_text()) {
      return fail(ErrorKind::kInvalidArgument, "{}: a {} where a string or a tuple of strings is wanted",
                  kName, type_name(affix));
    }
    one.positional[0] = affix;
    SOLI_ASSIGN_OR_RETURN(const Search search, read_search(kName, context, subject, one));
    if (!search.possible) continue;
    if (kAtEnd ? search.within.ends_with(search.part) : search.within.starts_with(search.part))
      return Value(true);
  }
  return Value(false);
}

/// Cuts at blanks, at most `most` times from the left, as split() without a separator.
std::vector<std::string_view> cut_at_blanks(std::string_view text, int64_t most) {
  const Stripper blanks;
  std::vector<std::string_view> parts;
  for (text = blanks.left(text); !text.empty(); text = blanks.left(text)) {
    if (static_cast<int64_t>(parts.size()) == most) {
      parts.push_back(text);
      break;
    }
    size_t end = 0, bytes = 0;
    while (end < text.size() && !is_space(front(text.substr(end), bytes))) end += bytes;
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return parts;
}

std::vector<std::string_view> cut_at_blanks_from_end(std::string_view text, int64_t most) {
  const Stripper blanks;
  std::vector<std::string_view> parts;
  for (text = blanks.right(text); !text.empty(); text = blanks.right(text)) {
    if (static_cast<int64_t>(parts.size()) == most) {
      parts.push_back(text);
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      const size_t last = back_bytes(text.substr(0, begin));
      size_t bytes = 0;
      if (is_space(front(text.substr(begin - last), bytes))) break;
      begin -= last;
    }
    parts.push_back(text.substr(begin));
    text = text.substr(0, begin);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> cut_at(std::string_view text, std::string_view separator, int64_t most) {
  std::vector<std::string_view> parts;
  while (static_cast<int64_t>(parts.size()) < most) {
    const size_t place = find_first(text, separator);
    if (place == std::string_view::npos) break;
    parts.push_back(text.substr(0, place));
    text.remove_prefix(place + separator.size());
  }
  parts.push_back(text);
  return parts;
}

/// The same from the right: the places are those that a search from the end finds.
std::vector<std::string_view> cut_at_from_end(std::string_view text, std::string_view separator,
                                              int64_t most) {
  const std::string backwards(text.rbegin(), text.rend());
  const std::string separator_backwards(separator.rbegin(), separator.rend());
  std::vector<std::string_view> parts = cut_at(backwards, separator_backwards, most);
  std::reverse(parts.begin(), parts.end());
  for (std::string_view& part : parts) {  // to the same bytes in the text
    const auto end = static_cast<size_t>(part.data() - backwards.data());
    part = text.substr(text.size() - end - part.size(), part.size());
  }
  return parts;
}

Result<Value> list_of(Context& context, const std::vector<std::string_view>& parts) {
  SOLI_RETURN_IF_ERROR(context.room_for(parts.size() * kValueBytes));
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) {
    SOLI_RETURN_IF_ERROR(context.room_for(part.size()));
    SOLI_ASSIGN_OR_RETURN(Value item, context.text(std::string(part)));
    items.push_back(std::move(item));
  }
  return context.list(std::move(items));
}

template <bool kFromEnd>
Result<Value> split(Context& context, const Value& subject, const Arguments& arguments) {
  constexpr std::string_view kName = kFromEnd ? "rsplit" : "split";
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind(kName, arguments, {"sep", "maxsplit"}));
  SOLI_ASSIGN_OR_RETURN(int64_t most, int_argument(kName, bound[1], -1));
  if (most < 0) most = INT64_MAX;
  const std::string_view text = subject.bytes();
  SOLI_RETURN_IF_ERROR(context.work(text.size() / 4 + 1));
  // At worst every other byte begins a part; a copy of the text is made to search from the end.
  SOLI_RETURN_IF_ERROR(context.room_for((text.size() / 2 + 1) * sizeof(std::string_view) + text.size()));
  if (!bound.has(0) || bound[0].is_none()) {
    return list_of(context, kFromEnd ? cut_at_blanks_from_end(text, most) : cut_at_blanks(text, most));
  }
  SOLI_ASSIGN_OR_RETURN(const std::string_view separator, text_argument(kName, bound[0], ""));
  if (separator.empty()) return fail(ErrorKind::kInvalidArgument, "{}: the separator is empty", kName);
  return list_of(context, kFromEnd ? cut_at_from_end(text, separator, most) : cut_at(text, separator, most));
}

Result<Value> split_lines(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("splitlines", arguments, {"keepends"}));
  SOLI_RETURN_IF_ERROR(context.work(subject.bytes().size() / 4 + 1));
  SOLI_RETURN_IF_ERROR(context.room_for(subject.bytes().size() * sizeof(std::string_view)));
  return list_of(context, lines_of(subject.bytes(), bound.truthy_or(0, false)));
}

template <bool kFromEnd>
Result<Value> partition(Context& context, const Value& subject, const Arguments& arguments) {
  constexpr std::string_view kName = kFromEnd ? "rpartition" : "partition";
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind(kName, arguments, {"sep"}, 1));
  SOLI_ASSIGN_OR_RETURN(const std::string_view separator, text_argument(kName, bound[0], ""));
  if (separator.empty()) return fail(ErrorKind::kInvalidArgument, "{}: the separator is empty", kName);
  const std::string_view text = subject.bytes();
  SOLI_RETURN_IF_ERROR(context.look_at(2 * text.size()));
  SOLI_RETURN_IF_ERROR(context.room_for(2 * text.size()));
  const size_t place = kFromEnd ? find_last(text, separator) : find_first(text, separator);
  std::vector<std::string_view> parts = {text.substr(0, place), separator, ""};
  if (place == std::string_view::npos) {
    parts =
        kFromEnd ? std::vector<std::string_view>{"", "", text} : std::vector<std::string_view>{text, "", ""};
  } else {
    parts[2] = text.substr(place + separator.size());
  }
  SOLI_ASSIGN_OR_RETURN(const Value list, list_of(context, parts));
  return context.tuple(list.list()->items);
}

/// Whether there are characters, all of one kind.
template <bool (*kIsOfKind)(uint32_t)>
Result<Value> all_are(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("string method", arguments, {}));
  SOLI_RETURN_IF_ERROR(context.work(subject.bytes().size()));
  std::string_view text = subject.bytes();
  bool holds = !text.empty();
  while (holds && !text.empty()) {
    size_t bytes = 0;
    holds = kIsOfKind(front(text, bytes));
    text.remove_prefix(bytes);
  }
  return Value(holds);
}

bool is_letter_or_digit(uint32_t c) { return is_letter(c) || is_digit(c); }

/// Whether some letter has the case and none the other.
template <bool kUpper>
Result<Value> has_case(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const bool holds,
                        find_test(kUpper ? "upper" : "lower")->holds(context, subject, arguments));
  return Value(holds);
}

constexpr Filter kSearchMethods[] = {
    {"count", count},
    {"endswith", has_affix<true>},
    {"find", find<false>},
    {"index", index<false>},
    {"isalnum", all_are<is_letter_or_digit>},
    {"isalpha", all_are<is_letter>},
    {"isdecimal", all_are<is_digit>},
    {"isdigit", all_are<is_digit>},
    {"islower", has_case<false>},
    {"isnumeric", all_are<is_digit>},
    {"isspace", all_are<is_space>},
    {"isupper", has_case<true>},
    {"partition", partition<false>},
    {"rfind", find<true>},
    {"rindex", index<true>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"split", split<false>},
    {"splitlines", split_lines},
    {"startswith", has_affix<false>},
};

}  // namespace

std::span<const Filter> text_search_methods() { return kSearchMethods; }

}  // namespace soli::jinja
