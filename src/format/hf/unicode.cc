#include "format/hf/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"

namespace soli::hf {
namespace {

constexpr size_t kMaxDecomposed = 32;  // the longest of one character has 18

bool composes(NormalForm form) { return form == NormalForm::kNfc || form == NormalForm::kNfkc; }

utf8proc_option_t options_of(NormalForm form) {
  int options = UTF8PROC_STABLE | (composes(form) ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  if (form == NormalForm::kNfkc || form == NormalForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

int combining_class(int32_t code_point) { return utf8proc_get_property(code_point)->combining_class; }

/// Sorts each run of combining characters by their class: utf8proc's own takes quadratic time.
void order_marks(std::vector<int32_t>& text) {
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<ptrdiff_t>(i), text.begin() + static_cast<ptrdiff_t>(end),
                     [](int32_t a, int32_t b) { return combining_class(a) < combining_class(b); });
    i = std::max(end, i + 1);
  }
}

/// Appends the normal form of a text that interacts with nothing around it.
Status append_normalized(std::string& out, std::string_view text, NormalForm form, size_t max_bytes) {
  const utf8proc_option_t options = options_of(form);
  std::vector<int32_t> buffer;
  while (!text.empty()) {
    const Utf8Unit unit = utf8_front(text);
    text.remove_prefix(unit.bytes);
    int32_t decomposed[kMaxDecomposed];
    int boundary = 0;
    const auto n = utf8proc_decompose_char(static_cast<int32_t>(unit.code_point), decomposed, kMaxDecomposed,
                                           options, &boundary);
    SOLI_CHECK(n > 0 && static_cast<size_t>(n) <= kMaxDecomposed, "U+{:04X}", unit.code_point);
    buffer.insert(buffer.end(), decomposed, decomposed + n);
    if (buffer.size() > max_bytes / sizeof(int32_t)) return too_long(max_bytes);
  }
  order_marks(buffer);
  if (composes(form)) {
    const auto n =
        utf8proc_normalize_utf32(buffer.data(), static_cast<utf8proc_ssize_t>(buffer.size()), options);
    SOLI_CHECK(n >= 0);
    buffer.resize(static_cast<size_t>(n));
  }
  for (const int32_t code_point : buffer) append_utf8(out, static_cast<uint32_t>(code_point));
  return {};
}

bool is_ascii(char c) { return static_cast<signed char>(c) >= 0; }

}  // namespace

bool is_white_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_mark(uint32_t code_point) {
  const utf8proc_category_t category = utf8proc_category(static_cast<int32_t>(code_point));
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

void append_lower(std::string& out, uint32_t code_point) {
  if (code_point == 0x130) {  // the only one whose lower case is two characters
    out += "i\u0307";
    return;
  }
  append_utf8(out, static_cast<uint32_t>(utf8proc_tolower(static_cast<int32_t>(code_point))));
}

size_t leading_white_space(std::string_view text) {
  size_t bytes = 0;
  while (bytes < text.size()) {
    const Utf8Unit unit = utf8_front(text.substr(bytes));
    if (!is_white_space(unit.code_point)) break;
    bytes += unit.bytes;
  }
  return bytes;
}

size_t trailing_white_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    if (!is_white_space(utf8_front(text.substr(begin, end - begin)).code_point)) break;
    end = begin;
  }
  return text.size() - end;
}

tl::unexpected<Error> too_long(size_t max_bytes) {
  return fail(ErrorKind::kLimit, "the text grows to more than the {} bytes allowed", max_bytes);
}

Result<std::string> normalized(std::string_view text, NormalForm form, size_t max_bytes) {
  std::string out;
  // ASCII is in every normal form. It combines with nothing before it, and the last of a run can combine with
  // what follows.
  for (size_t i = 0; i < text.size();) {
    size_t other = i;
    while (other < text.size() && is_ascii(text[other])) ++other;
    if (other == text.size()) {
      out += text.substr(i);
      break;
    }
    const size_t begin = other == i ? i : other - 1;
    size_t end = other;
    while (end < text.size() && !is_ascii(text[end])) ++end;
    out += text.substr(i, begin - i);
    SOLI_RETURN_IF_ERROR(append_normalized(out, text.substr(begin, end - begin), form, max_bytes));
    if (out.size() > max_bytes) return too_long(max_bytes);
    i = end;
  }
  return out;
}

}  // namespace soli::hf
