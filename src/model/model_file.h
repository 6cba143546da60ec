#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/gguf.h"
#include "model/family.h"
#include "model/packed_experts.h"

namespace soli {

// Limits on what metadata may claim, above every published model; they bound memory and time on hostile
// files.
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxHiddenSize = int64_t{1} << 20;
inline constexpr int64_t kMaxHeads = int64_t{1} << 14;
inline constexpr int64_t kMaxHeadDim = int64_t{1} << 14;
inline constexpr int64_t kMaxExperts = int64_t{1} << 16;
inline constexpr int64_t kMaxContextLength = int64_t{1} << 30;
inline constexpr int64_t kMaxFfnWidth = int64_t{1} << 30;

/// Rows [first_row, first_row + rows) of a tensor seen as a matrix; experts of a 3-D tensor follow one
/// another. Those of a packed file have a shape, and no place: see ModelFile::extent().
struct TensorRows {
  const GgufTensor* tensor = nullptr;
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t cols = 0;

  int64_t offset() const { return tensor->offset + first_row * tensor->row_bytes(); }  // in its shard
  int64_t bytes() const { return rows * tensor->row_bytes(); }
  int64_t elements() const { return rows * cols; }
};

struct BoundLinear {
  const LinearSlot* slot = nullptr;
  int64_t layer = 0;  // 0 for a global one
  int64_t head = 0;   // of a slot with a matrix per head
  TensorRows weight = {};
  bool transposed = false;           // `weight` is [cols][rows] of the matrix
  const GgufTensor* bias = nullptr;  // F32, or null: none
  int64_t bias_first = 0;            // element of `bias` that belongs to the first row
};

struct BoundVector {
  const VectorSlot* slot = nullptr;
  int64_t layer = 0;
  TensorRows values;  // rows = 1
};

/// Where the experts of one layer stand in the file: [matrix][expert].
using BoundExperts = std::array<std::vector<TensorRows>, kExpertMatrices>;
/// Where their biases do: [matrix] F32 tensors [rows, experts], or null: none.
using BoundExpertBiases = std::array<const GgufTensor*, kExpertMatrices>;

/// A model file, understood: its spec, and for every tensor the place that it takes in the model. Weights are
/// not read. Valid by construction: shapes agree with the spec, required tensors are there, no tensor is left
/// over.
class ModelFile {
 public:
  /// Fails, naming the key or tensor at fault, for an unknown architecture, a missing or senseless key, a
  /// missing tensor, a wrong shape, or a tensor that nobody claims.
  static Result<ModelFile> open(const std::string& path);

  const GgufFile& gguf() const { return gguf_; }
  const Family& family() const { return *family_; }
  const ModelSpec& spec() const { return spec_; }
  const std::vector<BoundLinear>& linears() const { return linears_; }
  const std::vector<BoundVector>& vectors() const { return vectors_; }
  /// Experts of a MoE layer (in terms of layers, not of MoE layers).
  const BoundExperts& experts(int64_t layer) const { return experts_[static_cast<size_t>(layer)]; }
  const BoundExpertBiases& expert_biases(int64_t layer) const {
    return expert_biases_[static_cast<size_t>(layer)];
  }
  /// Where an expert of a MoE layer lies, ready to multiply; null where the file is not packed.
  const ExpertExtent* extent(int64_t layer, int64_t expert) const {
    return packed_ ? packed_->extent(layer, expert) : nullptr;
  }
  /// The tensors as the plain file has them: the experts' matrices in place of packed extents.
  std::vector<const GgufTensor*> tensors() const;
  /// The experts of a packed file, or null.
  const PackedExperts* packed() const { return packed_ ? &*packed_ : nullptr; }
  bool output_is_tied() const { return output_is_tied_; }

 private:
  explicit ModelFile(GgufFile gguf) : gguf_(std::move(gguf)) {}

  friend class Binder;

  GgufFile gguf_;
  const Family* family_ = nullptr;
  ModelSpec spec_;
  std::vector<BoundLinear> linears_;
  std::vector<BoundVector> vectors_;
  std::vector<BoundExperts> experts_;  // [n_layers]; empty ones for dense layers
  std::vector<BoundExpertBiases> expert_biases_;
  std::optional<PackedExperts> packed_;
  bool output_is_tied_ = true;
};

/// The spec that a file's metadata states: the family's defaults, its keys, and what follows from them.
/// Widths of feed-forwards and the vocabulary come from the tensors' shapes.
Result<ModelSpec> read_spec(const GgufFile& gguf, const Family& family);

/// A pattern with "{}" replaced by the layer, and a second "{}" by the expert.
std::string tensor_name(const std::string& pattern, int64_t layer, int64_t expert = -1);

}  // namespace soli
