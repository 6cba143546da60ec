// Filters that make or change numbers, and a few for any value.
#include <charconv>
#include <cmath>
#include <optional>

#include "format/jinja/filters.h"
#include "format/jinja/operators.h"
#include "format/jinja/printing.h"
#include "format/jinja/unicode.h"

namespace soli::jinja {
namespace {

/// What int() and float() of Python take around and within a number.
std::optional<std::string> clean_number(std::string_view text) {
  std::string cleaned;
  const std::string_view stripped = Stripper().both(text);
  for (size_t i = 0; i < stripped.size(); ++i) {
    if (stripped[i] == '_') {
      const auto digit_at = [&](size_t k) {
        return k < stripped.size() && std::isxdigit(static_cast<unsigned char>(stripped[k])) != 0;
      };
      if (i == 0 || !digit_at(i - 1) || !digit_at(i + 1)) return std::nullopt;
    } else {
      cleaned += stripped[i];
    }
  }
  if (cleaned.starts_with('+')) {
    cleaned.erase(0, 1);
    if (cleaned.starts_with('-')) return std::nullopt;
  }
  return cleaned;
}

std::optional<double> read_float(std::string_view text) {
  const std::optional<std::string> cleaned = clean_number(text);
  if (!cleaned || cleaned->empty()) return std::nullopt;
  double number = 0;
  const char* const end = cleaned->data() + cleaned->size();
  const auto [stop, error] = std::from_chars(cleaned->data(), end, number);
  if (stop != end) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    return std::strtod(cleaned->c_str(), nullptr);  // what is too large is infinite, too small is 0
  }
  if (error != std::errc()) return std::nullopt;
  return number;
}

std::optional<int64_t> read_int(std::string_view text, int base) {
  std::optional<std::string> cleaned = clean_number(text);
  if (!cleaned) return std::nullopt;
  const bool negative = cleaned->starts_with('-');
  std::string_view digits = std::string_view(*cleaned).substr(negative ? 1 : 0);
  const std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
  if (!prefix.empty() && digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == prefix[1])
    digits.remove_prefix(2);
  if (digits.starts_with('-')) return std::nullopt;
  const std::string whole = fmt::format("{}{}", negative ? "-" : "", digits);
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(whole.data(), whole.data() + whole.size(), number, base);
  if (error != std::errc() || stop != whole.data() + whole.size()) return std::nullopt;
  return number;
}

/// int() of a float; absent for what is not finite.
Result<std::optional<int64_t>> truncate(double number) {
  if (!std::isfinite(number)) return std::nullopt;
  if (std::fabs(number) >= 9.2e18) {
    return fail(ErrorKind::kLimit, "int: {} is beyond the 64 bits allowed", format_float(number));
  }
  return static_cast<int64_t>(number);
}

Result<Value> to_int(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("int", arguments, {"default", "base"}));
  SOLI_ASSIGN_OR_RETURN(const int64_t base, int_argument("int: base", bound[1], 10));
  const Value fallback = bound.has(0) ? bound[0] : Value(int64_t{0});
  if (base < 2 || base > 36) return fallback;
  if (subject.is_integral()) return Value(subject.as_int());
  if (subject.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", subject.why_undefined());
  std::optional<double> number;
  if (subject.is_float()) {
    number = subject.as_float();
  } else if (subject.is_text()) {
    SOLI_RETURN_IF_ERROR(context.look_at(subject.bytes().size()));
    if (const std::optional<int64_t> whole = read_int(subject.bytes(), static_cast<int>(base)))
      return Value(*whole);
    number = read_float(subject.bytes());
  }
  if (!number) return fallback;
  SOLI_ASSIGN_OR_RETURN(const std::optional<int64_t> whole, truncate(*number));
  return whole ? Value(*whole) : fallback;
}

Result<Value> to_float(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("float", arguments, {"default"}));
  if (subject.is_number()) return Value(subject.as_float());
  if (subject.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", subject.why_undefined());
  if (subject.is_text()) {
    SOLI_RETURN_IF_ERROR(context.look_at(subject.bytes().size()));
    if (const std::optional<double> number = read_float(subject.bytes())) return Value(*number);
  }
  return bound.has(0) ? bound[0] : Value(0.0);
}

Status want_number(std::string_view filter, const Value& subject) {
  if (subject.is_number()) return {};
  if (subject.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", subject.why_undefined());
  return fail(ErrorKind::kInvalidArgument, "{}: a {} where a number is wanted", filter, type_name(subject));
}

Result<Value> absolute(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  SOLI_RETURN_IF_ERROR(bind("abs", arguments, {}));
  SOLI_RETURN_IF_ERROR(want_number("abs", subject));
  if (subject.is_float()) return Value(std::fabs(subject.as_float()));
  return subject.as_int() < 0 ? negate(subject) : Value(subject.as_int());
}

/// round() of Python: halves go to the even neighbour, of the decimal that the number is.
double round_to(double number, int64_t digits) {
  if (!std::isfinite(number) || digits > 22) return number;
  if (digits < -308) return 0.0 * number;
  if (digits >= 0) return std::strtod(fmt::format("{:.{}f}", number, digits).c_str(), nullptr);
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(number / scale) * scale;
}

Result<Value> round_number(Context& /*context*/, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("round", arguments, {"precision", "method"}));
  SOLI_ASSIGN_OR_RETURN(const int64_t precision, int_argument("round: precision", bound[0], 0));
  SOLI_ASSIGN_OR_RETURN(const std::string_view method, text_argument("round: method", bound[1], "common"));
  SOLI_RETURN_IF_ERROR(want_number("round", subject));
  if (method == "common") {
    if (subject.is_integral() && precision >= 0) return Value(subject.as_int());
    const double rounded = round_to(subject.as_float(), precision);
    if (!subject.is_integral()) return Value(rounded);
    return Value(static_cast<int64_t>(rounded));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value(std::ceil(subject.as_float() * scale) / scale);
  if (method == "floor") return Value(std::floor(subject.as_float() * scale) / scale);
  return fail(ErrorKind::kInvalidArgument, "round: method is common, ceil or floor");
}

Result<Value> fall_back(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound, bind("default", arguments, {"default_value", "boolean"}));
  if (!subject.is_undefined() && (!bound.truthy_or(1, false) || subject.truthy())) return subject;
  if (!arguments.positional.empty() || bound.has(0)) return bound[0];
  return context.text("");
}

Result<Value> to_json_text(Context& context, const Value& subject, const Arguments& arguments) {
  SOLI_ASSIGN_OR_RETURN(const Bound bound,
                        bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = bound.truthy_or(0, false);
  style.sort_keys = bound.truthy_or(3, false);
  if (bound.has(1) && !bound[1].is_none()) {
    style.item_separator.assign(1, ',');
    if (bound[1].is_text()) {
      style.indent = bound[1].bytes();
    } else {
      SOLI_ASSIGN_OR_RETURN(const size_t width, width_argument("tojson: indent", bound[1], 0));
      style.indent = std::string(width, ' ');
    }
  }
  if (bound.has(2) && !bound[2].is_none()) {
    const List* const pair = bound[2].list();
    if (pair == nullptr || pair->items.size() != 2 || !pair->items[0].is_text() ||
        !pair->items[1].is_text()) {
      return fail(ErrorKind::kInvalidArgument, "tojson: separators are two strings");
    }
    style.item_separator = pair->items[0].bytes();
    style.key_separator = pair->items[1].bytes();
  }
  return to_json(context, subject, style);
}

constexpr Filter kValueFilters[] = {
    {"abs", absolute}, {"d", fall_back},        {"default", fall_back},   {"float", to_float},
    {"int", to_int},   {"round", round_number}, {"tojson", to_json_text},
};

}  // namespace

std::span<const Filter> value_filters() { return kValueFilters; }

}  // namespace soli::jinja
