#include <fmt/format.h>

#include <cstring>
#include <iterator>

#include "format/gguf_metadata.h"

namespace soli {
namespace {

template <typename T>
GgufValue scalar(GgufType type, T value) {
  GgufValue out;
  out.type = type;
  out.bytes.resize(sizeof(T));
  std::memcpy(out.bytes.data(), &value, sizeof(T));
  return out;
}

template <typename T>
GgufValue array(GgufType element, std::span<const T> values) {
  GgufValue out;
  out.type = GgufType::kArray;
  out.element = element;
  out.count = values.size();
  out.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return out;
}

}  // namespace

int64_t gguf_type_bytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    default:
      return 0;
  }
}

std::string gguf_type_name(GgufType type) {
  constexpr std::string_view kNames[] = {"u8",   "i8",  "u16", "i16", "u32", "i32", "f32",
                                         "bool", "str", "arr", "u64", "i64", "f64"};
  const auto id = static_cast<uint32_t>(type);
  return id < std::size(kNames) ? std::string(kNames[id]) : fmt::format("type {}", id);
}

GgufValue GgufValue::of_uint16(uint16_t value) { return scalar(GgufType::kUint16, value); }
GgufValue GgufValue::of_uint32(uint32_t value) { return scalar(GgufType::kUint32, value); }
GgufValue GgufValue::of_uint64(uint64_t value) { return scalar(GgufType::kUint64, value); }
GgufValue GgufValue::of_int32(int32_t value) { return scalar(GgufType::kInt32, value); }
GgufValue GgufValue::of_float(float value) { return scalar(GgufType::kFloat32, value); }
GgufValue GgufValue::of_bool(bool value) { return scalar(GgufType::kBool, static_cast<uint8_t>(value)); }

GgufValue GgufValue::of_string(std::string_view value) {
  GgufValue out;
  out.type = GgufType::kString;
  out.bytes = value;
  return out;
}

GgufValue GgufValue::of_strings(std::span<const std::string> values) {
  GgufValue out;
  out.type = GgufType::kArray;
  out.element = GgufType::kString;
  out.count = values.size();
  for (const std::string& value : values) {
    out.bytes += value;
    out.ends.push_back(static_cast<uint32_t>(out.bytes.size()));
  }
  return out;
}

GgufValue GgufValue::of_int32s(std::span<const int32_t> values) { return array(GgufType::kInt32, values); }
GgufValue GgufValue::of_uint32s(std::span<const uint32_t> values) { return array(GgufType::kUint32, values); }
GgufValue GgufValue::of_uint64s(std::span<const uint64_t> values) { return array(GgufType::kUint64, values); }
GgufValue GgufValue::of_floats(std::span<const float> values) { return array(GgufType::kFloat32, values); }

}  // namespace soli
