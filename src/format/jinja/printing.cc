#include "format/jinja/printing.h"

#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "format/jinja/unicode.h"

namespace soli::jinja {
namespace {

void append_repr(TextBuilder& out, std::string_view text) {
  const bool single = text.find('\'') == std::string_view::npos || text.find('"') != std::string_view::npos;
  const char quote = single ? '\'' : '"';
  out.append(1, quote);
  while (!text.empty() && !out.failed()) {
    size_t bytes = 0;
    const uint32_t c = front(text, bytes);
    if (c == static_cast<uint32_t>(quote) || c == '\\') {
      out.append(1, '\\');
      out.append(text.substr(0, bytes));
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out.append(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    } else if (is_printable(c)) {
      out.append(text.substr(0, bytes));
    } else if (c < 0x100) {
      out.append(fmt::format("\\x{:02x}", c));
    } else if (c < 0x10000) {
      out.append(fmt::format("\\u{:04x}", c));
    } else {
      out.append(fmt::format("\\U{:08x}", c));
    }
    text.remove_prefix(bytes);
  }
  out.append(1, quote);
}

void append_list(TextBuilder& out, const List& list) {
  out.append(1, list.is_tuple ? '(' : '[');
  for (size_t i = 0; i < list.items.size() && !out.failed(); ++i) {
    if (i > 0) out.append(", ");
    append_value(out, list.items[i], true);
  }
  if (list.is_tuple && list.items.size() == 1) out.append(1, ',');
  out.append(1, list.is_tuple ? ')' : ']');
}

void append_dict(TextBuilder& out, const Dict& dict) {
  out.append(1, '{');
  for (size_t i = 0; i < dict.entries.size() && !out.failed(); ++i) {
    if (i > 0) out.append(", ");
    append_value(out, dict.entries[i].first, true);
    out.append(": ");
    append_value(out, dict.entries[i].second, true);
  }
  out.append(1, '}');
}

}  // namespace

std::string format_float(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char room[64];
  const auto end = std::to_chars(room, room + sizeof(room), number, std::chars_format::scientific).ptr;
  const std::string shortest(room, end);
  const size_t e = shortest.find('e');
  const int exponent = std::stoi(shortest.substr(e + 1));
  // Python's repr writes an exponent below 1e-4 and from 1e16 on.
  if (exponent < -4 || exponent >= 16) return shortest;
  const auto fixed_end = std::to_chars(room, room + sizeof(room), number, std::chars_format::fixed).ptr;
  std::string fixed(room, fixed_end);
  if (fixed.find('.') == std::string::npos) fixed += ".0";
  return fixed;
}

void append_value(TextBuilder& out, const Value& value, bool in_container) {
  if (value.is_text()) {
    if (in_container) {
      append_repr(out, value.bytes());
    } else {
      out.append(value.bytes());
    }
  } else if (value.is_undefined()) {
    if (in_container) out.append("Undefined");
  } else if (value.is_none()) {
    out.append("None");
  } else if (value.is_bool()) {
    out.append(value.as_bool() ? "True" : "False");
  } else if (value.is_int()) {
    out.append(fmt::format("{}", value.as_int()));
  } else if (value.is_float()) {
    out.append(format_float(value.as_float()));
  } else if (const List* const list = value.list()) {
    append_list(out, *list);
  } else if (const Dict* const dict = value.dict()) {
    append_dict(out, *dict);
  } else {
    out.append(fmt::format("<{}>", type_name(value)));  // Python shows an address, which says no more
  }
}

Result<Value> to_text(Context& context, const Value& value) {
  if (value.is_text()) return value;
  TextBuilder out(context);
  append_value(out, value);
  return out.finish_value();
}

void append_escaped(TextBuilder& out, std::string_view text) {
  size_t plain = 0;
  for (size_t i = 0; i < text.size() && !out.failed(); ++i) {
    std::string_view entity;
    switch (text[i]) {
      case '&':
        entity = "&amp;";
        break;
      case '<':
        entity = "&lt;";
        break;
      case '>':
        entity = "&gt;";
        break;
      case '\'':
        entity = "&#39;";
        break;
      case '"':
        entity = "&#34;";
        break;
      default:
        continue;
    }
    out.append(text.substr(plain, i - plain));
    out.append(entity);
    plain = i + 1;
  }
  out.append(text.substr(plain));
}

}  // namespace soli::jinja
