#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/model_file.h"
#include "model/parameters.h"
#include "ops/context.h"
#include "ops/runtime.h"

namespace soli::cli {

/// All tensors of one type.
struct TypeSummary {
  uint32_t type = 0;
  int64_t n_tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;
  bool has_matrices = false;                     // vectors are used as floats, whatever their type
  bool supported = false;                        // soli has kernels for it
  std::optional<std::string_view> with_act_f32;  // effective precision of activations, for matrices
  std::optional<std::string_view> with_act_q8;

  /// Counted from the bytes of the file, scales included.
  double bits_per_weight() const { return 8.0 * static_cast<double>(bytes) / static_cast<double>(elements); }
};

/// What a model is, counted from its file without reading a weight [O1].
struct ModelSummary {
  const ModelFile* file = nullptr;  // borrowed
  std::string tokenizer;            // one line; why it cannot be read, if it cannot
  std::string chat_template;  // one line: "default, 2507 bytes", "none"; why it cannot be used, if it cannot
  ParameterCounts counts;
  PartSize active;  // per token, at the model's own experts per token
  std::vector<TypeSummary> types;
  std::optional<int64_t>
      resident_bytes;  // weights in RAM once loaded, packed; absent: some type is not supported
  int64_t kv_position_bytes_f32 = 0;
  int64_t kv_position_bytes_f16 = 0;

  double activation_ratio() const {
    return static_cast<double>(active.parameters) / static_cast<double>(counts.nominal_total.parameters);
  }
};

ModelSummary summarise(const ModelFile& file, Runtime& runtime);

std::string render_text(const ModelSummary& summary);
/// One line per tensor: name, type, dimensions, bytes, shard and offset.
std::string render_tensors(const ModelFile& file);
nlohmann::ordered_json to_json(const ModelSummary& summary, bool with_tensors);

/// A published shape: sizes and parameters by part, from the shape alone. Fails, listing the names.
struct ShapeSummary {
  std::string name;
  ModelSpec spec;
  ParameterCounts counts;
  PartSize active;  // per token; of the embedding one row

  // Publishers of models count active parameters in one of these ways, too.
  int64_t active_with_embedding() const;
  int64_t active_without_vocabulary() const;  // neither embedding nor output head

  static Result<ShapeSummary> of(std::string_view name);
};
std::string render_text(const ShapeSummary& summary);
nlohmann::ordered_json to_json(const ShapeSummary& summary);

/// "softmax over all experts, then the best k, weights renormalised"
std::string describe_gating(const RouterSpec& router);

}  // namespace soli::cli
