#pragma once

// Characters as Python's str sees them: positions count code points, and blanks, letters and cases are those
// of Unicode. All texts are well-formed UTF-8.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/jinja/value.h"

namespace soli::jinja {

/// Blanks in the sense of str.isspace(), str.strip() and str.split().
bool is_space(uint32_t code_point);
/// Line ends in the sense of str.splitlines().
bool is_line_end(uint32_t code_point);
bool is_letter(uint32_t code_point);
bool is_digit(uint32_t code_point);  // category Nd
bool is_upper(uint32_t code_point);
bool is_lower(uint32_t code_point);
/// Whether repr() shows it as it is.
bool is_printable(uint32_t code_point);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
void append_upper(std::string& out, uint32_t code_point);  // in title case where that differs
void append_lower(std::string& out, uint32_t code_point);

/// The code point at the front of a text that is not empty; `bytes` is its length.
uint32_t front(std::string_view text, size_t& bytes);
/// Length of the last character of a text that is not empty.
size_t back_bytes(std::string_view text);

size_t count_characters(const Text& text);
/// Offset in bytes of the character at an index, at most the length.
size_t offset_of(const Text& text, size_t index);

/// The text without characters of a set, or without blanks, at either end. O(n log of the set's size).
class Stripper {
 public:
  Stripper() = default;                     // of blanks
  explicit Stripper(std::string_view set);  // of these characters
  std::string_view left(std::string_view text) const;
  std::string_view right(std::string_view text) const;
  std::string_view both(std::string_view text) const { return right(left(text)); }

 private:
  bool takes(uint32_t code_point) const;

  bool blanks_ = true;
  std::vector<uint32_t> set_;  // sorted
};

/// The lines of a text as str.splitlines() gives them.
std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends);

/// Offset of the first, or of the last, place of `part` in `text`, or npos. Linear for any input.
size_t find_first(std::string_view text, std::string_view part, size_t from = 0);
size_t find_last(std::string_view text, std::string_view part);

}  // namespace soli::jinja
