#pragma once

// A model family is data: defaults of the axes, the metadata keys that fill the rest, and a table of tensor
// slots. Reading, checking, counting, loading and synthesising all work from these tables.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/layer_weights.h"
#include "model/spec.h"

namespace soli {

/// A metadata key "<architecture>.<suffix>" and the field of the spec that it fills.
struct KeySlot {
  std::string suffix;
  std::variant<int64_t ModelSpec::*, double ModelSpec::*, int64_t RouterSpec::*> field;
  bool required = true;  // an optional key leaves the field at the family's default
};

/// Sizes from which tensor shapes are made; resolved by size_of(spec, dim).
enum class Dim {
  kHidden,
  kVocab,
  kQueryRow,  // n_heads * head_dim
  kKeyRow,    // n_kv_heads * head_dim
  kValueRow,  // n_kv_heads * value_dim
  kMixedRow,  // n_heads * value_dim: the input of the output projection
  kHeadDim,
  kRopePairs,
  kFfnWidth,
  kExperts,
  kExpertWidth,
  kSharedWidth,
  kOne,
};
int64_t size_of(const ModelSpec& spec, Dim dim);

/// The part of a model to which a tensor's parameters are counted.
enum class Part {
  kEmbedding,
  kAttention,
  kNorms,
  kDenseFfn,
  kRouter,
  kSharedExperts,
  kRoutedExperts,
  kOutputHead
};
inline constexpr int kParts = 8;
std::string_view name_of(Part part);

/// Which layers have a slot.
enum class Layers { kAll, kDense, kMoe };
bool has_layer(const ModelSpec& spec, Layers layers, int64_t layer);

/// A matrix [rows][cols]. "{}" in a pattern stands for the layer.
struct LinearSlot {
  std::variant<Linear LayerWeights::*, Linear GlobalWeights::*> member;
  std::string pattern;
  Dim rows;
  Dim cols;
  Part part;
  Layers layers = Layers::kAll;
  bool required = true;
  std::string bias_pattern = {};  // empty: never has one
  bool bias_required = false;
  std::string fused_pattern = {};  // a tensor that holds this matrix among others, where `pattern` is absent
  std::vector<Dim> fused_before = {};  // the rows that stand before it there
};

/// A vector of floats [size].
struct VectorSlot {
  std::variant<std::span<const float> LayerWeights::*, std::span<const float> GlobalWeights::*> member;
  std::string pattern;
  Dim size;
  Part part;
  Layers layers = Layers::kAll;
  bool required = true;
};

/// One of the three matrices of every routed expert: a 3-D tensor "blk.0.ffn_gate_exps.weight" [cols, rows,
/// experts], or one tensor per expert "blk.0.ffn_gate.7.weight" ("{}" is first the layer, then the expert).
struct ExpertSlot {
  ExpertMatrix which;
  std::string merged_pattern;
  std::string single_pattern;
  Dim rows;
  Dim cols;
};

struct Family {
  ModelSpec defaults;  // axes and optional values; `architecture` is the family's name
  std::vector<KeySlot> keys;
  std::vector<LinearSlot> linears;
  std::vector<VectorSlot> vectors;
  std::vector<ExpertSlot> experts;
};

/// The family of a GGUF architecture name, or null.
const Family* find_family(std::string_view architecture);
std::vector<std::string_view> family_names();

/// A pre-norm decoder with RMSNorm, grouped-query attention, RoPE and a SwiGLU feed-forward: the trunk that
/// families vary. Has the common keys, the global tensors, attention, norms and the dense feed-forward.
Family decoder_family(std::string architecture);
/// Adds the experts' keys, the router and the expert tensors.
void add_experts(Family& family, RouterSpec router);
/// Adds one shared expert whose output is multiplied with the sigmoid of a gate of its own.
void add_gated_shared_expert(Family& family);
/// Adds attn_q_norm and attn_k_norm, per head or over the whole row.
void add_qk_norm(Family& family, QkNorm qk_norm);
/// Requires a bias on q, k and v.
void require_qkv_bias(Family& family);

// One per file in families/.
Family llama_family();
Family olmoe_family();
Family qwen2_family();
Family qwen2moe_family();
Family qwen3_family();
Family qwen3moe_family();

}  // namespace soli
