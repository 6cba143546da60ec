#pragma once

#include <array>
#include <cstdint>

#include "model/model_file.h"

namespace soli {

struct PartSize {
  int64_t parameters = 0;
  int64_t bytes = 0;  // as stored in the file

  PartSize& operator+=(const PartSize& other) {
    parameters += other.parameters;
    bytes += other.bytes;
    return *this;
  }
};

/// Counted, not estimated: the sizes of a model's parts by its tensors.
struct ParameterCounts {
  std::array<PartSize, kParts> nominal;  // by Part; a tied output head counts once, as the embedding
  PartSize nominal_total;                // nominal parameters N
  PartSize always_active;  // what every token multiplies with, one row of the embedding included
  std::vector<std::vector<PartSize>> expert;  // [layer][expert]; empty for dense layers

  /// Active parameters A(t) of a token that chose the model's own k experts per layer, where all experts are
  /// equal; where they are not, the mean over experts.
  PartSize active_with_k(const ModelSpec& spec) const;
};

ParameterCounts count_parameters(const ModelFile& file);

/// The same of a shape, without a file: tensors that a family requires, and no bytes. `spec` is complete.
ParameterCounts count_parameters(const Family& family, const ModelSpec& spec, bool tied_output);

/// The biases of one expert of a layer.
PartSize expert_bias_size(const ModelFile& file, int64_t layer);

}  // namespace soli
