// json.dumps() of Python.
#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "format/jinja/printing.h"
#include "format/jinja/unicode.h"

namespace soli::jinja {
namespace {

class JsonWriter {
 public:
  JsonWriter(Context& context, const JsonStyle& style) : context_(context), out_(context), style_(style) {}

  Status write(const Value& value, size_t level);
  Result<Value> finish() { return out_.finish_value(); }

 private:
  void write_string(std::string_view text);
  void write_escape(uint32_t code_point);
  void write_float(double number);
  Status write_list(const List& list, size_t level);
  Status write_dict(const Dict& dict, size_t level);
  Result<std::string> key_of(const Value& key) const;
  void break_line(size_t level);

  Context& context_;
  TextBuilder out_;
  const JsonStyle& style_;
};

void JsonWriter::write_escape(uint32_t c) {
  const auto write_unit = [&](uint32_t unit) { out_.append(fmt::format("\\u{:04x}", unit)); };
  if (c < 0x10000) return write_unit(c);
  write_unit(0xD800 + ((c - 0x10000) >> 10));
  write_unit(0xDC00 + ((c - 0x10000) & 0x3FF));
}

void JsonWriter::write_string(std::string_view text) {
  constexpr std::string_view kShort = "\"\\\n\r\t\b\f";
  constexpr std::string_view kLetters = "\"\\nrtbf";
  out_.append(1, '"');
  size_t plain = 0;
  for (size_t i = 0; i < text.size() && !out_.failed();) {
    size_t bytes = 0;
    const uint32_t c = front(text.substr(i), bytes);
    const size_t known = c < 0x80 ? kShort.find(static_cast<char>(c)) : std::string_view::npos;
    if (known == std::string_view::npos && c >= 0x20 && (c < 0x7F || !style_.ensure_ascii)) {
      i += bytes;
      continue;
    }
    out_.append(text.substr(plain, i - plain));
    if (known != std::string_view::npos) {
      out_.append(1, '\\');
      out_.append(1, kLetters[known]);
    } else {
      write_escape(c);
    }
    i += bytes;
    plain = i;
  }
  out_.append(text.substr(plain));
  out_.append(1, '"');
}

void JsonWriter::write_float(double number) {
  if (std::isnan(number)) return out_.append("NaN");
  if (std::isinf(number)) return out_.append(number < 0 ? "-Infinity" : "Infinity");
  out_.append(format_float(number));
}

void JsonWriter::break_line(size_t level) {
  if (!style_.indent) return;
  out_.append(1, '\n');
  for (size_t i = 0; i < level && !out_.failed(); ++i) out_.append(*style_.indent);
}

Status JsonWriter::write_list(const List& list, size_t level) {
  if (list.items.empty()) {
    out_.append("[]");
    return {};
  }
  out_.append(1, '[');
  for (size_t i = 0; i < list.items.size() && !out_.failed(); ++i) {
    if (i > 0) out_.append(style_.item_separator);
    break_line(level + 1);
    SOLI_RETURN_IF_ERROR(write(list.items[i], level + 1));
  }
  break_line(level);
  out_.append(1, ']');
  return {};
}

Result<std::string> JsonWriter::key_of(const Value& key) const {
  if (key.is_text()) return std::string(key.bytes());
  if (key.is_none()) return std::string("null");
  if (key.is_bool()) return std::string(key.as_bool() ? "true" : "false");
  if (key.is_int()) return fmt::format("{}", key.as_int());
  if (key.is_float()) return format_float(key.as_float());
  return fail(ErrorKind::kInvalidArgument, "tojson: a key of type {} has no form in JSON", type_name(key));
}

Status JsonWriter::write_dict(const Dict& dict, size_t level) {
  if (dict.entries.empty()) {
    out_.append("{}");
    return {};
  }
  std::vector<std::pair<std::string, const Value*>> entries;
  for (const auto& [key, value] : dict.entries) {
    SOLI_ASSIGN_OR_RETURN(std::string name, key_of(key));
    entries.emplace_back(std::move(name), &value);
  }
  if (style_.sort_keys) {
    SOLI_RETURN_IF_ERROR(context_.work(entries.size()));
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  out_.append(1, '{');
  for (size_t i = 0; i < entries.size() && !out_.failed(); ++i) {
    if (i > 0) out_.append(style_.item_separator);
    break_line(level + 1);
    write_string(entries[i].first);
    out_.append(style_.key_separator);
    SOLI_RETURN_IF_ERROR(write(*entries[i].second, level + 1));
  }
  break_line(level);
  out_.append(1, '}');
  return {};
}

Status JsonWriter::write(const Value& value, size_t level) {
  if (const List* const list = value.list()) return write_list(*list, level);
  if (const Dict* const dict = value.dict()) return write_dict(*dict, level);
  if (value.is_text()) {
    write_string(value.bytes());
  } else if (value.is_none()) {
    out_.append("null");
  } else if (value.is_bool()) {
    out_.append(value.as_bool() ? "true" : "false");
  } else if (value.is_int()) {
    out_.append(fmt::format("{}", value.as_int()));
  } else if (value.is_float()) {
    write_float(value.as_float());
  } else if (value.is_undefined()) {
    return fail(ErrorKind::kInvalidArgument, "tojson: {}", value.why_undefined());
  } else {
    return fail(ErrorKind::kInvalidArgument, "tojson: a {} has no form in JSON", type_name(value));
  }
  return {};
}

}  // namespace

Result<Value> to_json(Context& context, const Value& value, const JsonStyle& style) {
  JsonWriter writer(context, style);
  SOLI_RETURN_IF_ERROR(writer.write(value, 0));
  return writer.finish();
}

}  // namespace soli::jinja
