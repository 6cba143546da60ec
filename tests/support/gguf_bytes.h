#pragma once

// GGUF files byte by byte, so that tests can tell any lie that a file may tell.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/gguf.h"

namespace soli {

template <typename T>
std::string raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
}

/// A length, true or false, and the text.
inline std::string raw_string(std::string_view text, std::optional<uint64_t> length = {}) {
  return raw(length.value_or(text.size())) + std::string(text);
}

inline std::string raw_entry(std::string_view key, uint32_t type, const std::string& value) {
  return raw_string(key) + raw(type) + value;
}

inline std::string raw_array(std::string_view key, uint32_t element, uint64_t count,
                             const std::string& values) {
  return raw_entry(key, 9, raw(element) + raw(count) + values);
}

struct GgufBytes {
  struct Tensor {
    std::string name = "w";
    std::vector<int64_t> dims = {32};
    uint32_t type = kGgmlF32;
    uint64_t offset = 0;
    std::optional<uint32_t> n_dims = {};  // if it lies about the dims that follow
  };

  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> tensor_count = {};  // if it lies
  std::optional<uint64_t> key_count = {};
  std::vector<std::string> entries = {raw_entry("a", 4, raw(uint32_t{7}))};
  std::vector<Tensor> tensors = {Tensor{}};
  size_t data_bytes = 128;
  size_t alignment = 32;

  std::string bytes() const {
    std::string out = magic + raw(version) + raw(tensor_count.value_or(tensors.size())) +
                      raw(key_count.value_or(entries.size()));
    for (const std::string& entry : entries) out += entry;
    for (const Tensor& tensor : tensors) {
      out += raw_string(tensor.name) + raw(tensor.n_dims.value_or(static_cast<uint32_t>(tensor.dims.size())));
      for (const int64_t dim : tensor.dims) out += raw(dim);
      out += raw(tensor.type) + raw(tensor.offset);
    }
    out.resize((out.size() + alignment - 1) / alignment * alignment + data_bytes);
    return out;
  }
};

}  // namespace soli
