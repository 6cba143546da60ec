#include "format/gguf_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "base/utf8.h"

namespace soli {
namespace {

static_assert(std::endian::native == std::endian::little, "values are kept as the file has them");

constexpr size_t kListedElements = 4;     // of an array, in a listing
constexpr size_t kListedTextBytes = 48;   // of a string, in a listing
constexpr size_t kListedTokenBytes = 16;  // of a string in an array, in a listing

template <typename T>
T load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

bool is_integer(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kUint16:
    case GgufType::kInt16:
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kUint64:
    case GgufType::kInt64:
      return true;
    default:
      return false;
  }
}

bool is_float(GgufType type) { return type == GgufType::kFloat32 || type == GgufType::kFloat64; }

/// The bits of an integer, sign-extended to 64.
uint64_t load_integer(GgufType type, const char* bytes) {
  switch (type) {
    case GgufType::kUint8:
      return load<uint8_t>(bytes);
    case GgufType::kInt8:
      return static_cast<uint64_t>(int64_t{load<int8_t>(bytes)});
    case GgufType::kUint16:
      return load<uint16_t>(bytes);
    case GgufType::kInt16:
      return static_cast<uint64_t>(int64_t{load<int16_t>(bytes)});
    case GgufType::kUint32:
      return load<uint32_t>(bytes);
    case GgufType::kInt32:
      return static_cast<uint64_t>(int64_t{load<int32_t>(bytes)});
    default:
      return load<uint64_t>(bytes);
  }
}

double load_float(GgufType type, const char* bytes) {
  return type == GgufType::kFloat32 ? double{load<float>(bytes)} : load<double>(bytes);
}

/// True for an integer outside of int64_t, which only u64 can be, or a negative one; both are bit 63.
bool has_top_bit(uint64_t bits) { return static_cast<int64_t>(bits) < 0; }

std::string show_scalar(GgufType type, const char* bytes) {
  if (type == GgufType::kBool) return *bytes != 0 ? "true" : "false";
  if (is_float(type)) return fmt::format("{:g}", load_float(type, bytes));
  const uint64_t bits = load_integer(type, bytes);
  return type == GgufType::kUint64 ? fmt::format("{}", bits) : fmt::format("{}", static_cast<int64_t>(bits));
}

std::string type_of(const GgufValue& value) {
  if (value.type != GgufType::kArray) return gguf_type_name(value.type);
  return fmt::format("[{}]", gguf_type_name(value.element));
}

GgufStrings strings_of(const GgufValue& value) { return GgufStrings(value.bytes, value.ends); }

std::string show_element(const GgufValue& array, size_t i) {
  if (array.element == GgufType::kString)
    return '"' + printable(strings_of(array)[i], kListedTokenBytes) + '"';
  return show_scalar(array.element,
                     array.bytes.data() + i * static_cast<size_t>(gguf_type_bytes(array.element)));
}

std::string show(const GgufValue& value) {
  if (value.type == GgufType::kString) return '"' + printable(value.bytes, kListedTextBytes) + '"';
  if (value.type != GgufType::kArray) return show_scalar(value.type, value.bytes.data());
  std::string out = fmt::format("{} x [", value.count);
  for (size_t i = 0; i < std::min<uint64_t>(value.count, kListedElements); ++i) {
    out += (i == 0 ? "" : ", ") + show_element(value, i);
  }
  return out + (value.count > kListedElements ? ", ...]" : "]");
}

}  // namespace

Result<GgufMetadata> GgufMetadata::build(std::string source, std::vector<Entry> entries) {
  GgufMetadata metadata;
  metadata.source_ = std::move(source);
  metadata.entries_ = std::move(entries);
  const std::vector<Entry>& kept = metadata.entries_;
  std::vector<uint32_t>& order = metadata.by_key_;
  order.resize(kept.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return kept[a].key < kept[b].key; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (kept[order[i]].key == kept[order[i - 1]].key) {
      return fail(ErrorKind::kMalformed, "{}: metadata key '{}' appears twice", metadata.source_,
                  kept[order[i]].key);
    }
  }
  return metadata;
}

std::vector<GgufMetadata::Line> GgufMetadata::listing() const {
  std::vector<Line> lines;
  lines.reserve(entries_.size());
  for (const Entry& entry : entries_) lines.push_back({entry.key, type_of(entry.value), show(entry.value)});
  return lines;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto at =
      std::lower_bound(by_key_.begin(), by_key_.end(), key,
                       [&](uint32_t i, std::string_view wanted) { return entries_[i].key < wanted; });
  return at != by_key_.end() && entries_[*at].key == key ? &entries_[*at].value : nullptr;
}

bool GgufMetadata::is_array(std::string_view key) const {
  const GgufValue* value = find(key);
  return value != nullptr && value->type == GgufType::kArray;
}

Result<const GgufValue*> GgufMetadata::require(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return fail(ErrorKind::kNotFound, "{}: metadata key '{}' is missing", source_, key);
  return value;
}

tl::unexpected<Error> GgufMetadata::wrong_type(std::string_view key, const GgufValue& found,
                                               std::string_view wanted) const {
  return fail(ErrorKind::kMalformed, "{}: metadata key '{}' is {} of type {}, and must be {}", source_, key,
              show(found), type_of(found), wanted);
}

Result<uint64_t> GgufMetadata::get_uint(std::string_view key) const {
  SOLI_ASSIGN_OR_RETURN(const GgufValue* value, require(key));
  if (!is_integer(value->type)) return wrong_type(key, *value, "a non-negative integer");
  const uint64_t bits = load_integer(value->type, value->bytes.data());
  if (value->type != GgufType::kUint64 && has_top_bit(bits))
    return wrong_type(key, *value, "a non-negative integer");
  return bits;
}

Result<double> GgufMetadata::get_float(std::string_view key) const {
  SOLI_ASSIGN_OR_RETURN(const GgufValue* value, require(key));
  const char* bytes = value->bytes.data();
  if (is_float(value->type)) {
    const double number = load_float(value->type, bytes);
    return std::isfinite(number) ? Result<double>(number) : wrong_type(key, *value, "a finite number");
  }
  if (!is_integer(value->type)) return wrong_type(key, *value, "a number");
  const uint64_t bits = load_integer(value->type, bytes);
  return value->type == GgufType::kUint64 ? static_cast<double>(bits)
                                          : static_cast<double>(static_cast<int64_t>(bits));
}

Result<bool> GgufMetadata::get_bool(std::string_view key) const {
  SOLI_ASSIGN_OR_RETURN(const GgufValue* value, require(key));
  if (value->type != GgufType::kBool) return wrong_type(key, *value, "a bool");
  return value->bytes.front() != 0;
}

Result<std::string_view> GgufMetadata::get_string(std::string_view key) const {
  SOLI_ASSIGN_OR_RETURN(const GgufValue* value, require(key));
  if (value->type != GgufType::kString) return wrong_type(key, *value, "a string");
  return std::string_view(value->bytes);
}

Result<uint64_t> GgufMetadata::get_uint_or(std::string_view key, uint64_t fallback) const {
  return has(key) ? get_uint(key) : fallback;
}

Result<double> GgufMetadata::get_float_or(std::string_view key, double fallback) const {
  return has(key) ? get_float(key) : fallback;
}

Result<bool> GgufMetadata::get_bool_or(std::string_view key, bool fallback) const {
  return has(key) ? get_bool(key) : fallback;
}

Result<std::string_view> GgufMetadata::get_string_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? get_string(key) : fallback;
}

Result<const GgufValue*> GgufMetadata::require_array(std::string_view key, std::string_view wanted) const {
  SOLI_ASSIGN_OR_RETURN(const GgufValue* value, require(key));
  if (value->type != GgufType::kArray) return wrong_type(key, *value, wanted);
  return value;
}

Result<std::vector<int64_t>> GgufMetadata::get_ints(std::string_view key) const {
  constexpr std::string_view kWanted = "an array of integers below 2^63";
  SOLI_ASSIGN_OR_RETURN(const GgufValue* value, require_array(key, kWanted));
  if (!is_integer(value->element)) return wrong_type(key, *value, kWanted);
  const auto width = static_cast<size_t>(gguf_type_bytes(value->element));
  std::vector<int64_t> out(value->count);
  for (size_t i = 0; i < out.size(); ++i) {
    const uint64_t bits = load_integer(value->element, value->bytes.data() + i * width);
    if (value->element == GgufType::kUint64 && has_top_bit(bits)) return wrong_type(key, *value, kWanted);
    out[i] = static_cast<int64_t>(bits);
  }
  return out;
}

Result<std::vector<uint64_t>> GgufMetadata::get_uint64s(std::string_view key) const {
  constexpr std::string_view kWanted = "an array of u64";
  SOLI_ASSIGN_OR_RETURN(const GgufValue* value, require_array(key, kWanted));
  if (value->element != GgufType::kUint64) return wrong_type(key, *value, kWanted);
  std::vector<uint64_t> out(value->count);
  if (!out.empty()) std::memcpy(out.data(), value->bytes.data(), value->bytes.size());
  return out;
}

Result<std::vector<float>> GgufMetadata::get_floats(std::string_view key) const {
  constexpr std::string_view kWanted = "an array of floats";
  SOLI_ASSIGN_OR_RETURN(const GgufValue* value, require_array(key, kWanted));
  if (!is_float(value->element)) return wrong_type(key, *value, kWanted);
  const auto width = static_cast<size_t>(gguf_type_bytes(value->element));
  std::vector<float> out(value->count);
  for (size_t i = 0; i < out.size(); ++i) {
    // A double too large for a float becomes infinite, as IEEE rounding has it.
    out[i] = static_cast<float>(load_float(value->element, value->bytes.data() + i * width));
  }
  return out;
}

Result<std::vector<bool>> GgufMetadata::get_bools(std::string_view key) const {
  constexpr std::string_view kWanted = "an array of bools";
  SOLI_ASSIGN_OR_RETURN(const GgufValue* value, require_array(key, kWanted));
  if (value->element != GgufType::kBool) return wrong_type(key, *value, kWanted);
  std::vector<bool> out(value->count);
  for (size_t i = 0; i < out.size(); ++i) out[i] = value->bytes[i] != 0;
  return out;
}

Result<GgufStrings> GgufMetadata::get_strings(std::string_view key) const {
  constexpr std::string_view kWanted = "an array of strings";
  SOLI_ASSIGN_OR_RETURN(const GgufValue* value, require_array(key, kWanted));
  if (value->element != GgufType::kString) return wrong_type(key, *value, kWanted);
  return strings_of(*value);
}

}  // namespace soli
