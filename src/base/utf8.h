#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace soli {

/// Bytes (1 to 4) of the UTF-8 character that `text` starts with; 0 if it starts with none (empty, cut short,
/// overlong, a surrogate or above U+10FFFF). Table 3-7 of the Unicode standard.
size_t utf8_character_bytes(std::string_view text);

/// `text` in a form that a terminal or an error message can show on one line: control characters and bytes
/// that are not UTF-8 become \n, \t or \xNN, and "..." follows when more than `max_bytes` of the text would
/// be shown.
std::string printable(std::string_view text, size_t max_bytes = 80);

}  // namespace soli
