#pragma once

// The tensor types that a GGUF file may name: constants of the file format, whether or not soli can
// multiply them. Source: ggml.h and ggml-common.h of ggml 0.25.1.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace soli {

enum GgmlTypeId : uint32_t {
  kGgmlF32 = 0,
  kGgmlF16 = 1,
  kGgmlQ4_0 = 2,
  kGgmlQ4_1 = 3,
  kGgmlQ5_0 = 6,
  kGgmlQ5_1 = 7,
  kGgmlQ8_0 = 8,
  kGgmlQ8_1 = 9,
  kGgmlQ2_K = 10,
  kGgmlQ3_K = 11,
  kGgmlQ4_K = 12,
  kGgmlQ5_K = 13,
  kGgmlQ6_K = 14,
  kGgmlQ8_K = 15,
  kGgmlIQ2_XXS = 16,
  kGgmlIQ2_XS = 17,
  kGgmlIQ3_XXS = 18,
  kGgmlIQ1_S = 19,
  kGgmlIQ4_NL = 20,
  kGgmlIQ3_S = 21,
  kGgmlIQ2_S = 22,
  kGgmlIQ4_XS = 23,
  kGgmlI8 = 24,
  kGgmlI16 = 25,
  kGgmlI32 = 26,
  kGgmlI64 = 27,
  kGgmlF64 = 28,
  kGgmlIQ1_M = 29,
  kGgmlBF16 = 30,
  kGgmlTQ1_0 = 34,
  kGgmlTQ2_0 = 35,
  kGgmlMXFP4 = 39,
  kGgmlNVFP4 = 40,
  kGgmlQ1_0 = 41,
  kGgmlQ2_0 = 42,
};

/// One tensor type. A row is stored as blocks of `block_elements` values in `block_bytes` bytes each.
struct GgmlType {
  uint32_t id;
  std::string_view name;
  int64_t block_elements;  // 0 for a retired type: its layout is not defined any more
  int64_t block_bytes;

  bool retired() const { return block_elements == 0; }
  double bits_per_weight() const {
    return retired() ? 0.0 : 8.0 * static_cast<double>(block_bytes) / static_cast<double>(block_elements);
  }
};

/// All types in order of id, the retired ones too.
std::span<const GgmlType> ggml_types();

/// The type of that id, or nullptr for an id that the format does not define. The id is also the index.
const GgmlType* find_ggml_type(uint32_t id);

/// "Q4_K", or "type 99" for an id that the format does not define.
std::string ggml_type_name(uint32_t id);

/// Bytes of a tensor with dims[0] contiguous and missing dims 1, each at least 1. Fails for an unknown or
/// retired type, for rows that are no whole number of blocks, and for sizes above 2^63.
Result<int64_t> ggml_tensor_bytes(uint32_t type, const std::array<int64_t, 4>& dims);

}  // namespace soli
