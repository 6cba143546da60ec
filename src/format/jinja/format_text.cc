#include "format/jinja/format_text.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/utf8.h"
#include "format/jinja/printing.h"
#include "format/jinja/unicode.h"

namespace soli::jinja {
namespace {

/// What both formats share: how one value is shown.
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // < > = ^, or 0: as the type wants
  char sign = '-';
  bool alternate = false;
  char grouping = 0;  // , or _
  size_t width = 0;
  std::optional<size_t> precision;
  char type = 0;
};

Result<size_t> read_width(std::string_view& text) {
  size_t width = 0;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    width = width * 10 + static_cast<size_t>(text.front() - '0');
    if (width > kMaxWidth) {
      return fail(ErrorKind::kLimit, "a format asks for a width above the {} allowed", kMaxWidth);
    }
    text.remove_prefix(1);
  }
  return width;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

std::string group_digits(std::string digits, char separator, size_t every) {
  size_t end = digits.find_first_not_of("0123456789abcdefABCDEF");
  if (end == std::string::npos) end = digits.size();
  for (size_t i = end; i > every; i -= every) digits.insert(i - every, 1, separator);
  return digits;
}

uint64_t magnitude_of(int64_t number) {
  return number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
}

/// Digits of the number without its sign, or nothing where the type does not fit.
std::optional<std::string> digits_of(const FormatSpec& spec, const Value& value) {
  const char type = spec.type;
  const bool integral = value.is_integral();
  if (integral && (type == 0 || type == 'd' || type == 'i' || type == 'u' || type == 'n')) {
    return fmt::format("{}", magnitude_of(value.as_int()));
  }
  if (integral && std::string_view("xXob").find(type) != std::string_view::npos) {
    const auto magnitude = magnitude_of(value.as_int());
    const std::string prefix = spec.alternate ? fmt::format("0{}", type) : "";
    if (type == 'x') return prefix + fmt::format("{:x}", magnitude);
    if (type == 'X') return prefix + fmt::format("{:X}", magnitude);
    if (type == 'o') return prefix + fmt::format("{:o}", magnitude);
    return prefix + fmt::format("{:b}", magnitude);
  }
  if (!value.is_number()) return std::nullopt;
  const double magnitude = std::fabs(value.as_float());
  const int precision = static_cast<int>(std::min<size_t>(spec.precision.value_or(6), 1000));
  switch (type) {
    case 0:
      if (!spec.precision) return format_float(magnitude);
      return fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
    case 'f':
    case 'F':
      return fmt::format("{:.{}f}", magnitude, precision);
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'E':
      return fmt::format("{:.{}E}", magnitude, precision);
    case 'g':
    case 'n':
      return fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
    case 'G':
      return fmt::format("{:.{}G}", magnitude, std::max(precision, 1));
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    default:
      return std::nullopt;
  }
}

void append_padded(TextBuilder& out, const FormatSpec& spec, std::string_view sign, std::string_view body,
                   char default_align) {
  size_t shown = sign.size();
  for (std::string_view rest = body; !rest.empty(); ++shown) {
    size_t bytes = 0;
    front(rest, bytes);
    rest.remove_prefix(bytes);
  }
  const size_t padding = spec.width > shown ? spec.width - shown : 0;
  const char align = spec.align != 0 ? spec.align : default_align;
  const size_t before = align == '>' || align == '=' ? padding : align == '^' ? padding / 2 : 0;
  if (align == '=') out.append(sign);
  for (size_t i = 0; i < before; ++i) out.append(spec.fill);
  if (align != '=') out.append(sign);
  out.append(body);
  for (size_t i = before; i < padding; ++i) out.append(spec.fill);
}

Status append_number(TextBuilder& out, const FormatSpec& spec, const Value& value) {
  std::optional<std::string> digits = digits_of(spec, value);
  if (!digits) {
    return fail(ErrorKind::kInvalidArgument, "format: '{}' does not fit a {}", spec.type, type_name(value));
  }
  if (spec.grouping != 0) digits = group_digits(*std::move(digits), spec.grouping, 3);
  const bool negative = value.is_float() ? std::signbit(value.as_float()) : value.as_int() < 0;
  const std::string_view sign = negative ? "-" : spec.sign == '-' ? "" : std::string_view(&spec.sign, 1);
  append_padded(out, spec, sign, *digits, '>');
  return {};
}

void append_text(TextBuilder& out, const FormatSpec& spec, const Text& text) {
  const size_t end =
      spec.precision ? offset_of(text, *spec.precision) : text.bytes.size();  // a precision cuts
  append_padded(out, spec, "", std::string_view(text.bytes).substr(0, end), '<');
}

/// The value that %(name)s or the next %s stands for.
class PercentValues {
 public:
  explicit PercentValues(const Value& values) : values_(values) {
    const List* const list = values.list();
    if (list != nullptr && list->is_tuple) tuple_ = list;
  }
  const Value* next() {
    if (tuple_ != nullptr) return used_ < tuple_->items.size() ? &tuple_->items[used_++] : nullptr;
    return used_++ == 0 ? &values_ : nullptr;
  }
  const Value* named(std::string_view name) {
    used_ = 1;
    return values_.dict() != nullptr ? values_.dict()->find(name) : nullptr;
  }
  bool all_used() const {
    return tuple_ != nullptr ? used_ == tuple_->items.size() : used_ > 0 || values_.dict() != nullptr;
  }

 private:
  const Value& values_;
  const List* tuple_ = nullptr;
  size_t used_ = 0;
};

/// Reads what follows a %; leaves the conversion in spec.type. The name stays within `text`.
Result<FormatSpec> read_percent(std::string_view& text, std::optional<std::string_view>& name) {
  FormatSpec spec;
  if (take(text, '(')) {
    const size_t end = text.find(')');
    if (end == std::string_view::npos) return fail(ErrorKind::kInvalidArgument, "%: '(' without ')'");
    name = text.substr(0, end);
    text.remove_prefix(end + 1);
  }
  while (!text.empty() && std::string_view("-+ 0#").find(text.front()) != std::string_view::npos) {
    const char flag = text.front();
    if (flag == '-') spec.align = '<';
    if (flag == '+' || (flag == ' ' && spec.sign == '-')) spec.sign = flag;
    if (flag == '#') spec.alternate = true;
    if (flag == '0' && spec.align == 0) {
      spec.fill.assign(1, '0');
      spec.align = '=';
    }
    text.remove_prefix(1);
  }
  if (spec.align == '<') spec.fill.assign(1, ' ');
  if (spec.align == 0) spec.align = '>';
  SOLI_ASSIGN_OR_RETURN(spec.width, read_width(text));
  if (take(text, '.')) {
    SOLI_ASSIGN_OR_RETURN(spec.precision, read_width(text));
  }
  if (text.empty()) return fail(ErrorKind::kInvalidArgument, "%: the format ends within a conversion");
  spec.type = text.front();
  text.remove_prefix(1);
  return spec;
}

Status append_percent(Context& context, TextBuilder& out, FormatSpec spec, const Value& value) {
  if (spec.type == 's' || spec.type == 'r' || (spec.type == 'c' && value.is_text())) {
    TextBuilder shown(context);
    append_value(shown, value, spec.type == 'r');
    SOLI_ASSIGN_OR_RETURN(const Value text, shown.finish_value());
    if (spec.align == '=') spec = {.align = '>', .width = spec.width, .precision = spec.precision};
    append_text(out, spec, *text.text());
    return {};
  }
  if (value.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", value.why_undefined());
  if (std::string_view("diu").find(spec.type) != std::string_view::npos && value.is_float() &&
      std::fabs(value.as_float()) < 9e18) {
    return append_number(out, spec, Value(static_cast<int64_t>(value.as_float())));
  }
  if (std::string_view("diufFeEgGxXo").find(spec.type) == std::string_view::npos) {
    return fail(ErrorKind::kInvalidArgument, "%: '{}' is no conversion; there are s r d i u f e g x o c %",
                printable(std::string_view(&spec.type, 1)));
  }
  return append_number(out, spec, value);
}

/// [[fill]align][sign][#][0][width][grouping][.precision][type]
Result<FormatSpec> read_spec(std::string_view text) {
  FormatSpec spec;
  const std::string_view whole = text;
  constexpr std::string_view kAligns = "<>=^";
  size_t bytes = 0;
  if (!text.empty()) front(text, bytes);
  if (text.size() > bytes && bytes > 0 && kAligns.find(text[bytes]) != std::string_view::npos) {
    spec.fill = text.substr(0, bytes);
    spec.align = text[bytes];
    text.remove_prefix(bytes + 1);
  } else if (!text.empty() && kAligns.find(text.front()) != std::string_view::npos) {
    spec.align = text.front();
    text.remove_prefix(1);
  }
  if (!text.empty() && std::string_view("+- ").find(text.front()) != std::string_view::npos) {
    spec.sign = text.front();
    text.remove_prefix(1);
  }
  spec.alternate = take(text, '#');
  if (text.starts_with('0') && spec.align == 0) {
    spec.fill.assign(1, '0');
    spec.align = '=';
  }
  SOLI_ASSIGN_OR_RETURN(spec.width, read_width(text));
  if (text.starts_with(',') || text.starts_with('_')) {
    spec.grouping = text.front();
    text.remove_prefix(1);
  }
  if (take(text, '.')) {
    SOLI_ASSIGN_OR_RETURN(spec.precision, read_width(text));
  }
  if (!text.empty()) {
    spec.type = text.front();
    text.remove_prefix(1);
  }
  if (text.empty()) return spec;
  return fail(ErrorKind::kInvalidArgument, "format: '{}' is no format", printable(whole));
}

/// One field between braces: what it names, how it is converted and shown.
class BraceFields {
 public:
  BraceFields(Context& context, TextBuilder& out, const Arguments& arguments)
      : context_(context), out_(out), arguments_(arguments) {}

  Status append(std::string_view field) {
    const size_t colon = field.find(':');
    std::string_view name = field.substr(0, colon);
    const std::string_view spec_text = colon == std::string_view::npos ? "" : field.substr(colon + 1);
    char conversion = 0;
    if (const size_t mark = name.find('!'); mark != std::string_view::npos) {
      conversion = name.size() == mark + 2 ? name.back() : '?';
      name = name.substr(0, mark);
    }
    if (conversion != 0 && conversion != 's' && conversion != 'r') {
      return fail(ErrorKind::kInvalidArgument, "format: '{}': !s and !r are allowed", printable(field));
    }
    SOLI_ASSIGN_OR_RETURN(const Value* const value, find(name));
    SOLI_ASSIGN_OR_RETURN(const FormatSpec spec, read_spec(spec_text));
    if (conversion == 0 && value->is_number() && !(value->is_bool() && spec_text.empty())) {
      return append_number(out_, spec, *value);
    }
    if (spec.type != 0 && spec.type != 's') {
      return fail(ErrorKind::kInvalidArgument, "format: '{}' does not fit a {}",
                  printable(std::string_view(&spec.type, 1)), type_name(*value));
    }
    TextBuilder shown(context_);
    append_value(shown, *value, conversion == 'r');
    SOLI_ASSIGN_OR_RETURN(const Value text, shown.finish_value());
    append_text(out_, spec, *text.text());
    return {};
  }

 private:
  Result<const Value*> find(std::string_view name) {
    const auto is_digit_byte = [](char c) { return c >= '0' && c <= '9'; };
    if (std::all_of(name.begin(), name.end(), is_digit_byte)) {
      size_t index = next_;
      if (name.empty()) {
        ++next_;
      } else {
        SOLI_ASSIGN_OR_RETURN(index, read_width(name));
      }
      if (index < arguments_.positional.size()) return &arguments_.positional[index];
      return fail(ErrorKind::kInvalidArgument, "format: field {} of {} arguments", index,
                  arguments_.positional.size());
    }
    for (const auto& [candidate, value] : arguments_.named) {
      if (candidate == name) return &value;
    }
    return fail(ErrorKind::kInvalidArgument, "format: '{}' is neither the number nor the name of an argument",
                printable(name));
  }

  Context& context_;
  TextBuilder& out_;
  const Arguments& arguments_;
  size_t next_ = 0;
};

}  // namespace

Result<Value> format_percent(Context& context, std::string_view format, const Value& values) {
  TextBuilder out(context);
  PercentValues arguments(values);
  while (!format.empty() && !out.failed()) {
    const size_t percent = std::min(format.find('%'), format.size());
    out.append(format.substr(0, percent));
    format.remove_prefix(percent);
    if (format.empty()) break;
    format.remove_prefix(1);
    std::optional<std::string_view> name;
    SOLI_ASSIGN_OR_RETURN(const FormatSpec spec, read_percent(format, name));
    if (spec.type == '%') {
      out.append("%");
      continue;
    }
    const Value* const value = name ? arguments.named(*name) : arguments.next();
    if (value == nullptr) {
      return fail(ErrorKind::kInvalidArgument, "%: no value for %{}",
                  name ? fmt::format("({})", printable(*name)) : std::string(1, spec.type));
    }
    SOLI_RETURN_IF_ERROR(append_percent(context, out, spec, *value));
  }
  if (!out.failed() && !arguments.all_used())
    return fail(ErrorKind::kInvalidArgument, "%: not all values are used");
  return out.finish_value();
}

Result<Value> format_braces(Context& context, std::string_view format, const Arguments& arguments) {
  TextBuilder out(context);
  BraceFields fields(context, out, arguments);
  while (!format.empty() && !out.failed()) {
    const size_t brace = std::min(format.find_first_of("{}"), format.size());
    out.append(format.substr(0, brace));
    format.remove_prefix(brace);
    if (format.empty()) break;
    const char c = format.front();
    format.remove_prefix(1);
    if (take(format, c)) {  // doubled: itself
      out.append(1, c);
      continue;
    }
    const size_t end = format.find_first_of("{}");
    if (c == '}' || end == std::string_view::npos || format[end] == '{') {
      return fail(ErrorKind::kInvalidArgument, "format: a single '{}'; write it twice to show one", c);
    }
    SOLI_RETURN_IF_ERROR(fields.append(format.substr(0, end)));
    format.remove_prefix(end + 1);
  }
  return out.finish_value();
}

}  // namespace soli::jinja
