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

/// Length of the character that `lead` begins, and the range of its second byte (Unicode, table 3-7). 0 for a
/// byte that begins none.
struct Lead {
  uint32_t bytes;
  uint8_t second_low, second_high;
};

Lead lead_of(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Unit utf8_front(std::string_view text) {
  Utf8Unit unit;
  if (text.empty()) return unit;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const Lead lead = lead_of(byte(0));
  unit.bytes = 1;
  if (lead.bytes == 0) return unit;
  uint32_t code_point = lead.bytes == 1 ? byte(0) : byte(0) & (0x7Fu >> lead.bytes);
  for (; unit.bytes < lead.bytes; ++unit.bytes) {
    if (unit.bytes == text.size()) {
      unit.incomplete = true;
      return unit;
    }
    const uint8_t next = byte(unit.bytes);
    const uint8_t low = unit.bytes == 1 ? lead.second_low : 0x80;
    const uint8_t high = unit.bytes == 1 ? lead.second_high : 0xBF;
    if (next < low || next > high) return unit;
    code_point = code_point << 6 | (next & 0x3F);
  }
  unit.code_point = code_point;
  unit.valid = true;
  return unit;
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Unit unit = utf8_front(text);
    if (!unit.valid) return false;
    text.remove_prefix(unit.bytes);
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Unit unit = utf8_front(text);
    if (unit.valid) {
      out.append(text.substr(0, unit.bytes));
    } else {
      append_utf8(out, 0xFFFD);
    }
    text.remove_prefix(unit.bytes);
  }
  return out;
}

void append_utf8(std::string& text, uint32_t code_point) {
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) code_point = 0xFFFD;
  const auto put = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Utf8Unit unit = utf8_front(text.substr(i));
    const size_t step = unit.bytes;
    if (i + step > max_bytes) return out + "...";
    const std::string_view character = text.substr(i, step);
    if (character == "\n") {
      out += "\\n";
    } else if (character == "\t") {
      out += "\\t";
    } else if (!unit.valid || is_control(character)) {
      for (size_t j = 0; j < step; ++j) out += fmt::format("\\x{:02X}", byte_at(character, j));
    } else {
      out += character;
    }
    i += step;
  }
  return out;
}

}  // namespace soli
