#include "format/jinja/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"

namespace soli::jinja {
namespace {

utf8proc_category_t category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

template <typename F>
std::string map_characters(std::string_view text, F&& append) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t bytes = 0;
    append(out, front(text, bytes));
    text.remove_prefix(bytes);
  }
  return out;
}

void append_all_upper(std::string& out, uint32_t code_point) {
  constexpr uint32_t kSharpS = 0xDF;  // the one letter in common use whose upper case is two letters
  if (code_point == kSharpS) {
    out += "SS";
  } else {
    append_utf8(out, static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code_point))));
  }
}

}  // namespace

bool is_space(uint32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_end(uint32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_letter(uint32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_upper(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }

bool is_printable(uint32_t c) {
  if (c < 0x80) return c >= 0x20 && c != 0x7F;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

std::string to_upper(std::string_view text) { return map_characters(text, append_all_upper); }
std::string to_lower(std::string_view text) { return map_characters(text, append_lower); }

void append_upper(std::string& out, uint32_t code_point) {
  append_utf8(out, static_cast<uint32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code_point))));
}

void append_lower(std::string& out, uint32_t code_point) {
  append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code_point))));
}

uint32_t front(std::string_view text, size_t& bytes) {
  const Utf8Unit unit = utf8_front(text);
  bytes = unit.bytes;
  return unit.code_point;
}

size_t back_bytes(std::string_view text) {
  size_t bytes = 1;
  while (bytes < text.size() && (static_cast<unsigned char>(text[text.size() - bytes]) & 0xC0) == 0x80)
    ++bytes;
  return bytes;
}

size_t count_characters(const Text& text) {
  if (text.is_ascii) return text.bytes.size();
  return static_cast<size_t>(std::count_if(text.bytes.begin(), text.bytes.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

size_t offset_of(const Text& text, size_t index) {
  if (text.is_ascii) return std::min(index, text.bytes.size());
  size_t offset = 0;
  for (; index > 0 && offset < text.bytes.size(); --index) {
    ++offset;
    while (offset < text.bytes.size() && (static_cast<unsigned char>(text.bytes[offset]) & 0xC0) == 0x80)
      ++offset;
  }
  return offset;
}

Stripper::Stripper(std::string_view set) : blanks_(false) {
  while (!set.empty()) {
    size_t bytes = 0;
    set_.push_back(front(set, bytes));
    set.remove_prefix(bytes);
  }
  std::sort(set_.begin(), set_.end());
}

bool Stripper::takes(uint32_t code_point) const {
  return blanks_ ? is_space(code_point) : std::binary_search(set_.begin(), set_.end(), code_point);
}

std::string_view Stripper::left(std::string_view text) const {
  size_t bytes = 0;
  while (!text.empty() && takes(front(text, bytes))) text.remove_prefix(bytes);
  return text;
}

std::string_view Stripper::right(std::string_view text) const {
  while (!text.empty()) {
    const size_t last = back_bytes(text);
    size_t bytes = 0;
    if (!takes(front(text.substr(text.size() - last), bytes))) break;
    text.remove_suffix(last);
  }
  return text;
}

std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    size_t end = 0, bytes = 0;
    while (end < text.size() && !is_line_end(front(text.substr(end), bytes))) end += bytes;
    size_t after = std::min(end + bytes, text.size());
    if (end == text.size()) after = end;
    if (text.substr(end).starts_with("\r\n")) after = end + 2;
    lines.push_back(text.substr(0, keep_ends ? after : end));
    text.remove_prefix(after);
  }
  return lines;
}

size_t find_first(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  if (part.size() > text.size() - from) return std::string_view::npos;
  // Unlike string_view::find this stays linear where the part almost occurs everywhere.
  const void* const place = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (place == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(place) - text.data());
}

size_t find_last(std::string_view text, std::string_view part) {
  const std::string backwards(text.rbegin(), text.rend());
  const std::string part_backwards(part.rbegin(), part.rend());
  const size_t place = find_first(backwards, part_backwards);
  return place == std::string_view::npos ? place : text.size() - place - part.size();
}

}  // namespace soli::jinja
