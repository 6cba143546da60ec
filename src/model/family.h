#pragma once

// A model family is data: defaults of the axes, the metadata keys that fill the rest, and a table of tensor
// slots. Reading, checking, counting, loading and synthesising all work from these tables.

#include <array>
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
  std::variant<int64_t ModelSpec::*, double ModelSpec::*, int64_t RouterSpec::*, double RouterSpec::*,
               bool RouterSpec::*, Gating RouterSpec::*>
      field;
  bool required = true;  // an optional key leaves the field at the family's default
};

/// The field of a key in a spec.
template <typename T>
T& field_of(ModelSpec& spec, T ModelSpec::*field) {
  return spec.*field;
}
template <typename T>
T& field_of(ModelSpec& spec, T RouterSpec::*field) {
  return spec.router.*field;
}
template <typename Field>
auto field_of(const ModelSpec& spec, Field field) {
  return field_of(const_cast<ModelSpec&>(spec), field);
}

/// The number by which GGUF's expert_gating_func names a gating; 0 there: the family's own.
inline constexpr std::array<Gating, 3> kGatingNumbers = {Gating::kSoftmax, Gating::kSigmoid,
                                                         Gating::kSoftmaxChosen};  // 1, 2, 3

/// Sizes from which tensor shapes are made; resolved by size_of(spec, dim).
enum class Dim {
  kHidden,
  kVocab,
  kQueryRow,     // n_heads * dimension of a head's query
  kDirectQuery,  // the same, where queries come from the hidden state; else 0
  kKeyRow,       // n_kv_heads * head_dim
  kValueRow,     // n_kv_heads * value_dim
  kMixedRow,     // n_heads * dimension of a head's value: the input of the output projection
  kHeads,        // n_heads
  kHeadDim,
  kQueryLatent,    // latent_query_rank
  kLatent,         // latent_rank
  kLatentAndRope,  // latent_rank + rope_dims
  kUnrotatedKey,   // latent_key_dim - rope_dims
  kLatentValue,    // latent_value_dim
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

/// Where a matrix lies in a tensor that holds several, one after the other, by rows.
struct FusedPlace {
  std::string pattern = {};       // empty: never
  std::string bias_pattern = {};  // of all of them
  std::vector<Dim> parts = {};    // the rows of each; for a matrix per head, of each head
  size_t part = 0;                // which one it is
  bool transposed = false;        // it is stored [cols][rows]
};

/// A matrix [rows][cols], or one for each head. "{}" in a pattern stands for the layer. A slot of which a
/// size is 0 does not exist in that model.
struct LinearSlot {
  std::variant<Linear LayerWeights::*, Linear GlobalWeights::*, std::vector<Linear> LayerWeights::*> member;
  std::string pattern;
  Dim rows;
  Dim cols;
  Part part;
  Layers layers = Layers::kAll;
  bool required = true;
  std::string bias_pattern = {};  // empty: never has one
  bool bias_required = false;
  FusedPlace fused = {};  // looked for where `pattern` is absent

  bool is_global() const { return member.index() == 1; }
  bool is_per_head() const { return member.index() == 2; }
};

/// A vector of floats [size].
struct VectorSlot {
  std::variant<std::span<const float> LayerWeights::*, std::span<const float> GlobalWeights::*> member;
  std::string pattern;
  Dim size;
  Part part;
  Layers layers = Layers::kAll;
  bool required = true;

  bool is_global() const { return member.index() == 1; }
};

/// One of the three matrices of every routed expert: a 3-D tensor "blk.0.ffn_gate_exps.weight" [cols, rows,
/// experts], or one tensor per expert "blk.0.ffn_gate.7.weight" ("{}" is first the layer, then the expert),
/// or a 3-D tensor of gate and up, the gate's rows first.
struct ExpertSlot {
  ExpertMatrix which;
  std::string merged_pattern;
  std::string single_pattern;
  Dim rows;
  Dim cols;
  std::string bias_pattern = {};  // a tensor [rows, experts]; empty: never has one
};
inline constexpr const char* kGateAndUpPattern = "blk.{}.ffn_gate_up_exps.weight";

struct Family {
  ModelSpec defaults;  // axes and optional values; `architecture` is the family's name
  std::vector<KeySlot> keys;
  std::vector<LinearSlot> linears;
  std::vector<VectorSlot> vectors;
  std::vector<ExpertSlot> experts;
  std::vector<std::string> ignored = {};  // patterns of tensors that may be there and are not read
};

/// Whether models of the family can have such a key, a size, or a vector.
bool has_key(const Family& family, std::string_view suffix);
bool has_dim(const Family& family, Dim dim);
bool has_vector(const Family& family, std::span<const float> GlobalWeights::*member);

/// The family of a GGUF architecture name, or null.
const Family* find_family(std::string_view architecture);
std::vector<std::string_view> family_names();

}  // namespace soli
