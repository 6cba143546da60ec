#include "observe/html_text.h"

#include "base/utf8.h"

namespace soli {
namespace {

bool is_blank(uint32_t c) { return c == '\n' || c == '\r' || c == '\t'; }

bool is_control(uint32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0); }

/// Marks, embeddings, overrides and isolates of direction (Unicode standard annex 9).
bool turns_direction(uint32_t c) {
  return c == 0x061C || c == 0x200E || c == 0x200F || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}

void append_html(std::string& out, uint32_t c) {
  switch (c) {
    case '<':
      out += "&lt;";
      return;
    case '>':
      out += "&gt;";
      return;
    case '&':
      out += "&amp;";
      return;
    case '"':
      out += "&quot;";
      return;
    case '\'':
      out += "&#39;";
      return;
    default:
      append_utf8(out, c);
  }
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Unit unit = utf8_front(text);
    const uint32_t c = unit.code_point;
    if (is_blank(c)) {
      out += ' ';
    } else {
      append_html(out, is_control(c) || turns_direction(c) ? 0xFFFD : c);
    }
    text.remove_prefix(unit.bytes);
  }
  return out;
}

std::string json_in_html(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";  // '<' stands only within texts of JSON
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace soli
