#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/slab.h"
#include "model/model_file.h"
#include "ops/moe_ffn.h"
#include "ops/runtime.h"

namespace soli {

/// The biases of all routed experts, for families that have them: few bytes, always in memory.
class ExpertBiases {
 public:
  /// Charged as "experts". Fails with kLimit, kUnsupported or kIo.
  static Result<ExpertBiases> load(const ModelFile& file, Runtime& runtime);
  /// What load() charges is this, in whole pages.
  static int64_t bytes_needed(const ModelFile& file);

  /// Gives an expert of a layer (among all layers) its biases, if it has some.
  void add_to(int64_t layer, int64_t expert, ExpertWeights& weights) const;

 private:
  struct OfMatrix {
    const float* values = nullptr;  // [n_experts][rows], or null
    int64_t rows = 0;
  };
  using OfLayer = std::array<OfMatrix, kExpertMatrices>;

  Slab slab_;
  std::vector<OfLayer> layers_;  // empty where no layer has any
};

}  // namespace soli
