// From published shapes to what can be written.

#include <fmt/ranges.h>
#include <strings.h>

#include <algorithm>

#include "model/published_shapes.h"
#include "model/synth.h"

namespace soli {
namespace {

/// Latent attention, windows and what rotates.
void set_attention(const Shape& shape, const Family& family, ModelSpec& spec) {
  if (has_dim(family, Dim::kLatent)) {
    spec.latent_rank = shape.latent_rank;
    spec.latent_query_rank = shape.latent_query_rank;
    spec.latent_key_dim = shape.latent_key_dim;
    spec.latent_value_dim = shape.latent_value_dim;
    spec.rope_dims = shape.latent_rope_dims;
  } else {
    spec.rope_dims = shape.rope_dims;
  }
  if (has_key(family, "attention.sliding_window")) spec.sliding_window = shape.sliding_window;
}

void set_experts(const Shape& shape, const Family& family, SynthOptions& options) {
  ModelSpec& spec = options.spec;
  spec.router.n_experts = shape.n_experts;
  spec.router.experts_per_token = shape.experts_per_token;
  spec.expert_width = shape.expert_width;
  if (has_dim(family, Dim::kSharedWidth)) spec.shared_expert_width = shape.shared_expert_width;
  if (has_key(family, "leading_dense_block_count")) spec.n_leading_dense_layers = shape.n_leading_dense;
  if (has_key(family, "expert_group_count")) {
    spec.router.n_groups = shape.n_groups;
    spec.router.n_groups_used = shape.n_groups_used;
  }
  if (!has_key(family, "expert_gating_func") || shape.routing == RouterSpec()) return;
  spec.router.gating = shape.routing.gating;
  spec.router.renormalise = shape.routing.renormalise;
  spec.router.weight_scale = shape.routing.weight_scale;
}

/// The part of a shape that the family has a use for.
SynthOptions options_of(const Shape& shape, const Family& family) {
  SynthOptions options;
  ModelSpec& spec = options.spec;
  spec = family.defaults;
  spec.name = std::string(shape.name) + " (random weights)";
  spec.n_layers = shape.n_layers;
  spec.hidden_size = shape.hidden_size;
  spec.n_heads = shape.n_heads;
  spec.n_kv_heads = shape.n_kv_heads;
  spec.head_dim = shape.head_dim;
  spec.ffn_width = shape.ffn_width;
  spec.vocab_size = shape.vocab_size;
  spec.context_length = shape.context_length;
  spec.rope_base = shape.rope_base;
  spec.norm_epsilon = shape.norm_epsilon;
  options.tied_output = shape.tied_output;
  set_attention(shape, family, spec);
  if (!family.experts.empty()) set_experts(shape, family, options);
  return options;
}

}  // namespace

std::array<uint32_t, kParts> SynthOptions::uniform_types(uint32_t type) {
  std::array<uint32_t, kParts> types;
  types.fill(type);
  types[static_cast<size_t>(Part::kNorms)] = kGgmlF32;
  types[static_cast<size_t>(Part::kRouter)] = kGgmlF32;
  return types;
}

std::vector<std::string_view> synth_preset_names() {
  std::vector<std::string_view> names;
  for (const Shape& shape : published_shapes()) names.push_back(shape.name);
  return names;
}

Result<SynthOptions> synth_preset(std::string_view name) {
  for (const Shape& shape : published_shapes()) {
    if (shape.name == name) return options_of(shape, *find_family(shape.family));
  }
  return fail(ErrorKind::kInvalidArgument, "preset: '{}' is not known; these are: {}", name,
              fmt::join(synth_preset_names(), ", "));
}

Result<SynthOptions> tiny_synth(std::string_view family_name) {
  const Family* family = find_family(family_name);
  if (family == nullptr) {
    return fail(ErrorKind::kInvalidArgument, "family: '{}' is not known; these are: {}", family_name,
                fmt::join(family_names(), ", "));
  }
  return options_of(tiny_shape(), *family);
}

Result<uint32_t> weight_type_of_name(const kernels::KernelTable& kernels, std::string_view name) {
  std::vector<std::string_view> names;
  for (const kernels::WeightKernels& type : kernels.weights) {
    if (type.name.size() == name.size() && ::strncasecmp(type.name.data(), name.data(), name.size()) == 0) {
      return type.gguf_type;
    }
    names.push_back(type.name);
  }
  return fail(ErrorKind::kInvalidArgument, "weight type: '{}' is not known; these are: {}", name,
              fmt::join(names, ", "));
}

}  // namespace soli
