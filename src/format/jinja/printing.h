#pragma once

// Values as text, as Python prints them.

#include <optional>
#include <string>

#include "format/jinja/context.h"

namespace soli::jinja {

/// Appends str(value): "" for undefined, True, None, 1.0, ['a', 1]. `in_container` means repr(value).
void append_value(TextBuilder& out, const Value& value, bool in_container = false);
/// str(value) as a value; the value itself where it is a string.
Result<Value> to_text(Context& context, const Value& value);
/// The shortest decimal that reads back as the number: "1.0", "1e-05", "inf".
std::string format_float(double number);

/// Escapes &, <, >, ' and " for HTML.
void append_escaped(TextBuilder& out, std::string_view text);

struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // per level; absent: one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

/// json.dumps(value). Fails with kInvalidArgument for what JSON cannot hold, such as an undefined value.
Result<Value> to_json(Context& context, const Value& value, const JsonStyle& style);

}  // namespace soli::jinja
