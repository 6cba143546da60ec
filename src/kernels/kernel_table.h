#pragma once

// The kernel set of one instruction set, and the choice of one at start. Kernels are single-threaded,
// allocate nothing and know nothing of models; shapes are checked and threads are split in ops/.
//
// Every kernel is written once over the 16-lane vocabulary of kernels/simd/ and instantiated per ISA, so that
// scalar, AVX2 and AVX-512 execute the same operations in the same order per output and give the same bits.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace soli::kernels {

/// Rows of a weight matrix that are stored interleaved: lane i of a vector register belongs to row i of the
/// strip.
inline constexpr int kStripRows = 16;

/// The form in which a row of activations enters a multiplication.
enum class ActivationForm : uint8_t {
  kF32,      // floats
  kBf16,     // bfloat16
  kQ8Of32,   // Q8Of32Block
  kQ8Of256,  // Q8Of256Block
};
inline constexpr int kActivationForms = 4;

/// Elements that share one scale in Q8Of32Block.
inline constexpr int kQ8BlockElements = 32;

/// 256 consecutive activations in signed 8 bit, [-127, 127], with a scale for each 32. The last block of a
/// row need not be full: what is beyond is not read.
struct alignas(64) Q8Of32Block {
  int8_t values[256];
  float scales[8];
  int32_t negative_sums[8];  // -(sum of the values) of each 32
};

/// 256 consecutive activations in signed 8 bit, [-127, 127], with one scale.
struct alignas(64) Q8Of256Block {
  int8_t values[256];
  int16_t sums_of_16[16];
  int16_t sums_of_32[8];
  float scale;
};
static_assert(sizeof(Q8Of32Block) == 320 && sizeof(Q8Of256Block) == 320);

/// Bytes of a row of `cols` activations.
constexpr int64_t activation_row_bytes(ActivationForm form, int64_t cols) {
  switch (form) {
    case ActivationForm::kF32:
      return cols * 4;
    case ActivationForm::kBf16:
      return cols * 2;
    case ActivationForm::kQ8Of32:
    case ActivationForm::kQ8Of256:
      return (cols + 255) / 256 * 320;
  }
  return 0;
}

/// One tile of y[t][r] = sum over k of weight[r][k] * x[t][k], for the rows of consecutive strips.
/// Per output, the sum runs over ascending k in one order that depends on neither tile shape nor ISA; the
/// order and its roundings are stated in kernels/product_*-inl.h.
struct MatmulTile {
  const std::byte* strips;  // [n_strips][strip_bytes], packed x16
  int64_t n_rows;           // rows to write; the last strip may be padded beyond them
  int64_t cols;             // k; a multiple of the type's block_elements
  const void* const* x;     // [n_tokens] rows of `cols` activations in the form that the kernel takes
  int64_t n_tokens;         // any number >= 0
  float* const* y;  // [n_tokens] pointers to the output of the tile's first row; n_rows floats are written
  /// Weights that the caller reads afterwards, asked for in time; null: those behind the strips, if any.
  const std::byte* next = nullptr;
};

/// What one ISA can do with one weight type. The file kernels/quant/types/<type>-inl.h states the type's
/// block layout, its canonical arithmetic and its plain scalar oracle.
struct WeightKernels {
  std::string_view name;   // as GGUF tools write it: "Q8_0"
  uint32_t gguf_type;      // ggml type id of the GGUF specification
  int block_elements;      // elements per block along k
  int block_bytes;         // bytes per block
  ActivationForm partner;  // the form of activations that matmul_partner takes

  /// Oracle: exact values of one GGUF row of `cols` elements.
  void (*dequantize_row)(const std::byte* row, int64_t cols, float* out);
  /// Oracle: a GGUF row from floats. ggml's bytes; K-quants and IQ types, which search: as small an error.
  void (*quantize_row)(const float* in, int64_t cols, std::byte* row);

  /// Packs 16 GGUF rows, which stand one after the other at `rows`, into the x16 layout at `strip`. Both have
  /// strip_bytes and do not overlap.
  void (*pack_strip)(const std::byte* rows, int64_t cols, std::byte* strip);
  /// Exact values of row `lane` of a packed strip.
  void (*dequantize_lane)(const std::byte* strip, int lane, int64_t cols, float* out);

  /// Weights dequantised to f32, f32 activations, one fused multiply-add per weight in ascending k.
  void (*matmul_f32)(const MatmulTile& tile);
  /// The fast product, with activations in the partner's form; matmul_f32 where that is kF32.
  void (*matmul_partner)(const MatmulTile& tile);

  int64_t row_bytes(int64_t cols) const { return cols / block_elements * block_bytes; }
  int64_t strip_bytes(int64_t cols) const { return kStripRows * row_bytes(cols); }
};

/// Positions whose keys and values lie together. A page is one block of attention: the running softmax is
/// brought up to date at multiples of this absolute position whatever the batch, so that sums group alike.
inline constexpr int64_t kAttentionBlockKeys = 64;
/// Queries of one tile of attention at most.
inline constexpr int64_t kAttentionTileQueries = 64;

/// Causal attention of some queries, of any rows of one sequence, over the keys and values that neighbouring
/// kv heads of one layer have in its pages. A head's keys in a page are packed in strips,
/// [kAttentionBlockKeys / 16][head_dim][16], so that lane i of a vector register belongs to key i of the
/// strip; its values are [kAttentionBlockKeys][value_dim]; the next head's follow. A query's bits depend on
/// neither the other queries of the tile nor what lies beyond its last key.
struct AttentionTile {
  const float* const* q;      // [n_queries] pointers to head_dim floats
  float* const* out;          // [n_queries] pointers to value_dim floats
  const int64_t* first_keys;  // [n_queries] the query sees keys [first, n), first < n
  const int64_t* n_keys;      // [n_queries]
  const float* sinks;         // [n_queries] logits beside those of the keys, without a value; null: none
  int64_t n_queries;          // 1 to kAttentionTileQueries; as many for each kv head, one after another
  int64_t n_kv_heads;
  // Page p holds keys [p * kAttentionBlockKeys, (p + 1) * kAttentionBlockKeys).
  const std::byte* const* pages;
  int64_t k_offset;  // bytes from the start of a page to the first kv head's keys
  int64_t v_offset;  // and to its values
  int64_t head_dim;
  int64_t value_dim;
  float scale;       // multiplied onto q . k
  float* workspace;  // attention_workspace_floats(head_dim, value_dim)
};

/// Floats that a tile of attention needs for its own use.
constexpr int64_t attention_workspace_floats(int64_t head_dim, int64_t value_dim) {
  const int64_t padded = (value_dim + kStripRows - 1) / kStripRows * kStripRows;
  return kAttentionTileQueries * (head_dim + padded + kAttentionBlockKeys);
}

using half = uint16_t;  // bits of an IEEE 754 binary16

/// Sizes of the operands of the probes below, for every ISA.
inline constexpr int64_t kProbeFmaFloats = 16 * 16;
inline constexpr int64_t kProbeDotBytes = 8 * 64;
inline constexpr int64_t kProbeDotSums = 12 * 16;
inline constexpr int64_t kProbeBf16Operands = 8 * 32;

/// All kernels of one instruction set.
struct KernelTable {
  std::string_view isa;                    // "scalar", "avx2", "avx512"
  std::span<const WeightKernels> weights;  // one per weight type that soli computes with

  /// y = x / sqrt(mean(x^2) + eps) * weight (Zhang, Sennrich 2019). y may be x.
  void (*rms_norm)(const float* x, const float* weight, int64_t n, float eps, float* y);
  /// Whether no element is infinite or NaN.
  bool (*all_finite)(const float* x, int64_t n);
  /// x = exp(x - max) / sum. n >= 1.
  void (*softmax)(float* x, int64_t n);
  /// out = sigmoid(x). out may be x.
  void (*sigmoid)(const float* x, int64_t n, float* out);
  /// out = silu(gate) * up (Shazeer 2020). out may be gate.
  void (*swiglu)(const float* gate, const float* up, int64_t n, float* out);
  /// g = min(gate, 7), u = clamp(up, -7, 7): out = g * sigmoid(1.702 g) * (u + 1) (gpt-oss). out may be gate.
  void (*swiglu_clamped)(const float* gate, const float* up, int64_t n, float* out);
  /// out = a + b. out may be a.
  void (*add)(const float* a, const float* b, int64_t n, float* out);
  /// out += w * x, one fused multiply-add per element.
  void (*add_scaled)(const float* x, float w, int64_t n, float* out);
  /// A row of `cols` activations in another form. Returns false, and writes zeros, when an element is not
  /// finite: that row has no 8-bit form and its request must fail. `cols` is a multiple of 32 (256).
  bool (*to_q8_of_32)(const float* x, int64_t cols, Q8Of32Block* out);
  bool (*to_q8_of_256)(const float* x, int64_t cols, Q8Of256Block* out);
  /// Rounds to nearest, ties to even; NaN stays NaN.
  void (*to_bf16)(const float* x, int64_t n, uint16_t* out);
  /// Widening and rounding (to nearest, ties to even) copies.
  void (*f32_to_f16)(const float* x, int64_t n, half* out);
  void (*f16_to_f32)(const half* x, int64_t n, float* out);
  /// Attention over pages of f32 or f16 numbers.
  void (*attention_f32)(const AttentionTile& tile);
  void (*attention_f16)(const AttentionTile& tile);

  /// XOR of the 64-bit words of [bytes, bytes + n), n a multiple of 8: the cost of reading alone.
  uint64_t (*read_checksum)(const std::byte* bytes, int64_t n);
  /// Fused multiply-adds that wait for nothing but each other, in registers: s = s * x + y, `iterations`
  /// times for each s. `state` is [kProbeFmaFloats]: 16 floats x, 16 floats y, then the s, which are updated.
  /// Returns the number of operations, two per lane.
  int64_t (*probe_fma)(int64_t iterations, float* state);
  /// The same for 8-bit dot products as integer products take them: each of the `state` [kProbeDotSums],
  /// which must not overflow, grows by four products per iteration, or stays as it is where this ISA keeps
  /// fewer. `operands` is [kProbeDotBytes]: weights, then activations. Returns operations, two per product.
  int64_t (*probe_dot_i8)(int64_t iterations, const int8_t* operands, int32_t* state);

  /// The same for bfloat16 dots, with `operands` [kProbeBf16Operands].
  int64_t (*probe_dot_bf16)(int64_t iterations, const uint16_t* operands, float* state);

  /// The kernels of a GGUF weight type, or null where soli has none.
  const WeightKernels* find(uint32_t gguf_type) const;
};

/// Names of the instruction sets that this build has and this machine runs, the fastest first.
std::vector<std::string_view> available_isas();

/// The table for `isa`, or the fastest for "". Fails, naming what is available, when the machine or build
/// lacks it.
Result<const KernelTable*> select_kernels(std::string_view isa);

}  // namespace soli::kernels
