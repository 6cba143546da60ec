#include "base/utf8.h"

#include <fmt/format.h>

#include <cstdint>

namespace soli {
namespace {

uint8_t byte_at(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

bool is_control(std::string_view character) {
  const uint8_t first = byte_at(character, 0);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return character.size() == 2 && first == 0xC2 && byte_at(character, 1) < 0xA0;  // U+0080..U+009F
}

}  // namespace

size_t utf8_character_bytes(std::string_view text) {
  if (text.empty()) return 0;
  const uint8_t first = byte_at(text, 0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < bytes) return 0;
  // The second byte's range depends on the first: it excludes overlong forms, surrogates and values past
  // U+10FFFF.
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte_at(text, 1) < low || byte_at(text, 1) > high) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if ((byte_at(text, i) & 0xC0) != 0x80) return 0;
  }
  return bytes;
}

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t bytes = utf8_character_bytes(text.substr(i));
    const size_t step = bytes == 0 ? 1 : bytes;
    if (i + step > max_bytes) return out + "...";
    const std::string_view character = text.substr(i, step);
    if (character == "\n") {
      out += "\\n";
    } else if (character == "\t") {
      out += "\\t";
    } else if (bytes == 0 || is_control(character)) {
      for (size_t j = 0; j < step; ++j) out += fmt::format("\\x{:02X}", byte_at(character, j));
    } else {
      out += character;
    }
    i += step;
  }
  return out;
}

}  // namespace soli
