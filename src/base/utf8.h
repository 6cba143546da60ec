#pragma once

// UTF-8 as section 3.9 of the Unicode standard defines it: no overlong forms, no surrogates, at most
// U+10FFFF.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace soli {

/// What stands at the beginning of some bytes.
struct Utf8Unit {
  uint32_t code_point = 0xFFFD;  // U+FFFD for an ill-formed part
  uint32_t bytes = 0;            // of the character, or of the longest ill-formed part; 0 only for ""
  bool valid = false;
  bool incomplete = false;  // not valid, and more bytes could make it so
};

/// The character, or the ill-formed part, at the beginning of `text`.
Utf8Unit utf8_front(std::string_view text);

bool is_valid_utf8(std::string_view text);

/// Every ill-formed part becomes one U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

/// Appends a code point; those that have no UTF-8 become U+FFFD.
void append_utf8(std::string& text, uint32_t code_point);

/// `text` in a form that a terminal or an error message can show on one line: control characters and bytes
/// that are not UTF-8 become \n, \t or \xNN, and "..." follows when more than `max_bytes` of the text would
/// be shown.
std::string printable(std::string_view text, size_t max_bytes = 80);

}  // namespace soli
