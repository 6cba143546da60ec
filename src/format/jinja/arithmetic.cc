// Arithmetic, as in Python: / gives a float, // and % round towards minus infinity.
#include <cmath>

#include "format/jinja/format_text.h"
#include "format/jinja/operators.h"
#include "format/jinja/printing.h"

namespace soli::jinja {
namespace {

constexpr const char* kArithmeticSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

tl::unexpected<Error> refuse(BinaryOperator op, const Value& a, const Value& b) {
  if (a.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", a.why_undefined());
  if (b.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", b.why_undefined());
  return fail(ErrorKind::kInvalidArgument, "{} does not go with {} and {}",
              kArithmeticSymbols[static_cast<int>(op)], type_name(a), type_name(b));
}

tl::unexpected<Error> overflow() {
  return fail(ErrorKind::kLimit, "a whole number is beyond the 64 bits allowed");
}

tl::unexpected<Error> division_by_zero() { return fail(ErrorKind::kInvalidArgument, "division by zero"); }

Result<Value> power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return division_by_zero();
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow();
  }
  return Value(result);
}

Result<Value> apply_to_ints(BinaryOperator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOperator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return overflow();
      return Value(result);
    case BinaryOperator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return overflow();
      return Value(result);
    case BinaryOperator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return overflow();
      return Value(result);
    case BinaryOperator::kPower:
      return power(a, b);
    default:
      break;
  }
  if (b == 0) return division_by_zero();
  if (op == BinaryOperator::kDivide) return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) {  // the one divisor whose quotient may overflow
    if (op == BinaryOperator::kModulo) return Value(int64_t{0});
    if (__builtin_sub_overflow(int64_t{0}, a, &result)) return overflow();
    return Value(result);
  }
  const int64_t remainder = a % b;
  const bool rounds_down = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == BinaryOperator::kModulo) return Value(rounds_down ? remainder + b : remainder);
  return Value(a / b - (rounds_down ? 1 : 0));
}

double floor_modulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) return remainder + b;
  return remainder == 0 ? std::copysign(0.0, b) : remainder;
}

Result<Value> apply_to_floats(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value(a + b);
    case BinaryOperator::kSubtract:
      return Value(a - b);
    case BinaryOperator::kMultiply:
      return Value(a * b);
    case BinaryOperator::kPower:
      if (a == 0 && b < 0) return division_by_zero();
      return Value(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) return division_by_zero();
  if (op == BinaryOperator::kDivide) return Value(a / b);
  if (op == BinaryOperator::kModulo) return Value(floor_modulo(a, b));
  return Value(std::floor((a - floor_modulo(a, b)) / b + 0.25));  // exact but for rounding of the quotient
}

Result<Value> add_texts(Context& context, const Text& a, const Text& b) {
  const bool is_markup = a.is_markup || b.is_markup;
  SOLI_RETURN_IF_ERROR(context.room_for(a.bytes.size() + b.bytes.size()));
  if (!is_markup) {
    std::string sum;
    sum.reserve(a.bytes.size() + b.bytes.size());
    return context.text(sum.append(a.bytes).append(b.bytes));
  }
  TextBuilder out(context);
  for (const Text* const part : {&a, &b}) {
    if (part->is_markup) {
      out.append(part->bytes);
    } else {
      append_escaped(out, part->bytes);
    }
  }
  SOLI_ASSIGN_OR_RETURN(std::string sum, out.finish());
  return context.text(std::move(sum), true);
}

Result<Value> add_lists(Context& context, const List& a, const List& b) {
  SOLI_RETURN_IF_ERROR(context.room_for((a.items.size() + b.items.size()) * kValueBytes));
  std::vector<Value> items;
  items.reserve(a.items.size() + b.items.size());
  items.insert(items.end(), a.items.begin(), a.items.end());
  items.insert(items.end(), b.items.begin(), b.items.end());
  return a.is_tuple ? context.tuple(std::move(items)) : context.list(std::move(items));
}

/// "ab" * 3 and [1] * 3; less than one time is none.
Result<Value> repeat(Context& context, const Value& value, int64_t times) {
  const auto n = static_cast<size_t>(std::max<int64_t>(times, 0));
  const Text* const text = value.text();
  const size_t one = text != nullptr ? text->bytes.size() : value.list()->items.size() * kValueBytes;
  if (one > 0) {
    SOLI_RETURN_IF_ERROR(context.room_for(n > SIZE_MAX / one ? SIZE_MAX : n * one));
  }
  if (text != nullptr) {
    std::string repeated;
    if (one > 0) {
      SOLI_RETURN_IF_ERROR(context.work(n));
      repeated.reserve(n * one);
      for (size_t i = 0; i < n; ++i) repeated += text->bytes;
    }
    return context.text(std::move(repeated), text->is_markup);
  }
  const List& list = *value.list();
  std::vector<Value> items;
  if (one > 0) {
    SOLI_RETURN_IF_ERROR(context.work(n));
    items.reserve(n * list.items.size());
    for (size_t i = 0; i < n; ++i) items.insert(items.end(), list.items.begin(), list.items.end());
  }
  return list.is_tuple ? context.tuple(std::move(items)) : context.list(std::move(items));
}

}  // namespace

Result<Value> apply(Context& context, BinaryOperator op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return apply_to_ints(op, a.as_int(), b.as_int());
  if (a.is_number() && b.is_number()) return apply_to_floats(op, a.as_float(), b.as_float());
  if (op == BinaryOperator::kAdd) {
    if (a.is_text() && b.is_text()) return add_texts(context, *a.text(), *b.text());
    if (a.list() != nullptr && b.list() != nullptr && a.list()->is_tuple == b.list()->is_tuple) {
      return add_lists(context, *a.list(), *b.list());
    }
  }
  if (op == BinaryOperator::kMultiply) {
    if ((a.is_text() || a.list() != nullptr) && b.is_integral()) return repeat(context, a, b.as_int());
    if ((b.is_text() || b.list() != nullptr) && a.is_integral()) return repeat(context, b, a.as_int());
  }
  if (op == BinaryOperator::kModulo && a.is_text()) return format_percent(context, a.bytes(), b);
  return refuse(op, a, b);
}

Result<Value> negate(const Value& value) {
  if (value.is_float()) return Value(-value.as_float());
  if (value.is_integral()) return apply_to_ints(BinaryOperator::kSubtract, 0, value.as_int());
  if (value.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", value.why_undefined());
  return fail(ErrorKind::kInvalidArgument, "- does not go with {}", type_name(value));
}

Result<Value> plus(const Value& value) {
  if (value.is_float()) return value;
  if (value.is_integral()) return Value(value.as_int());
  if (value.is_undefined()) return fail(ErrorKind::kInvalidArgument, "{}", value.why_undefined());
  return fail(ErrorKind::kInvalidArgument, "+ does not go with {}", type_name(value));
}

Result<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return overflow();
  return sum;
}

}  // namespace soli::jinja
