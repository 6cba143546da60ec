#include <cmath>
#include <string>
#include <type_traits>

#include "base/utf8.h"
#include "model/model_file.h"
#include "model/spec_limits.h"

namespace soli {
namespace {

// Keys that change what a model computes, and that soli does not compute.
constexpr std::string_view kNotComputed[] = {"attention.temperature_scale", "attn_logit_softcapping",
                                             "final_logit_softcapping", "router_logit_softcapping"};

Status read_gating(const GgufMetadata& metadata, const std::string& key, Gating& gating) {
  SOLI_ASSIGN_OR_RETURN(const uint64_t number, metadata.get_uint(key));
  if (number > kGatingNumbers.size()) {
    return fail(ErrorKind::kUnsupported,
                "{}: {} is not supported; 0 (the family's own), 1 (softmax), 2 (sigmoid) and 3 (softmax over "
                "the chosen) are",
                key, number);
  }
  if (number > 0) gating = kGatingNumbers[number - 1];
  return {};
}

/// Reads one metadata key into its field of the spec.
Status read_key(const GgufMetadata& metadata, const KeySlot& slot, ModelSpec& spec) {
  const std::string key = spec.architecture + "." + slot.suffix;
  if (!slot.required && !metadata.has(key)) return {};
  const auto read = [&](auto field) -> Status {
    auto& value = field_of(spec, field);
    using Value = std::remove_reference_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, double>) {
      SOLI_ASSIGN_OR_RETURN(value, metadata.get_float(key));
    } else if constexpr (std::is_same_v<Value, bool>) {
      SOLI_ASSIGN_OR_RETURN(value, metadata.get_bool_or(key, value));
    } else if constexpr (std::is_same_v<Value, Gating>) {
      return read_gating(metadata, key, value);
    } else {
      SOLI_ASSIGN_OR_RETURN(const uint64_t number, metadata.get_uint(key));
      if (number > uint64_t{1} << 62) {
        return fail(ErrorKind::kMalformed, "{}: {} is beyond every limit", key, number);
      }
      value = static_cast<int64_t>(number);
    }
    return {};
  };
  return std::visit(read, slot.field);
}

/// Fails unless low <= value <= high. NaN is in no range.
template <typename Number>
Status check_range(const ModelSpec& spec, const char* suffix, Number value, std::type_identity_t<Number> low,
                   std::type_identity_t<Number> high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorKind::kMalformed, "{}.{}: {} is not allowed; {} to {}", spec.architecture, suffix, value,
              low, high);
}

Status check_sizes(ModelSpec& spec) {
  SOLI_RETURN_IF_ERROR(check_range(spec, "block_count", spec.n_layers, 1, kMaxLayers));
  SOLI_RETURN_IF_ERROR(
      check_range(spec, "nextn_predict_layers", spec.n_prediction_layers, 0, spec.n_layers - 1));
  spec.n_layers -= spec.n_prediction_layers;
  SOLI_RETURN_IF_ERROR(check_range(spec, "embedding_length", spec.hidden_size, 1, kMaxHiddenSize));
  SOLI_RETURN_IF_ERROR(check_range(spec, "context_length", spec.context_length, 1, kMaxContextLength));
  SOLI_RETURN_IF_ERROR(check_range(spec, "attention.head_count", spec.n_heads, 1, kMaxHeads));
  if (!(spec.norm_epsilon >= 0 && spec.norm_epsilon < 1)) {
    return fail(ErrorKind::kMalformed, "{}.attention.layer_norm_rms_epsilon: {} is not allowed; 0 to 1",
                spec.architecture, spec.norm_epsilon);
  }
  return {};
}

/// Fills what the file left to its other keys, and checks the result.
Status finish_heads(ModelSpec& spec) {
  if (spec.n_kv_heads == 0) spec.n_kv_heads = spec.n_heads;
  SOLI_RETURN_IF_ERROR(check_range(spec, "attention.head_count_kv", spec.n_kv_heads, 1, spec.n_heads));
  if (spec.n_heads % spec.n_kv_heads != 0) {
    return fail(ErrorKind::kMalformed, "{}.attention.head_count_kv: {} does not divide head_count, {}",
                spec.architecture, spec.n_kv_heads, spec.n_heads);
  }
  if (spec.head_dim == 0) {
    if (spec.hidden_size % spec.n_heads != 0) {
      return fail(ErrorKind::kMalformed,
                  "{}.embedding_length: {} is not a multiple of head_count, {}, and there is no {}",
                  spec.architecture, spec.hidden_size, spec.n_heads, "attention.key_length");
    }
    spec.head_dim = spec.hidden_size / spec.n_heads;
  }
  if (spec.value_dim == 0) spec.value_dim = spec.head_dim;
  SOLI_RETURN_IF_ERROR(check_range(spec, "attention.key_length", spec.head_dim, 2, kMaxHeadDim));
  return check_range(spec, "attention.value_length", spec.value_dim, 1, kMaxHeadDim);
}

/// With latent attention, what is kept of a position follows from the ranks, whatever the layout.
Status finish_latent(ModelSpec& spec) {
  SOLI_RETURN_IF_ERROR(check_range(spec, "attention.kv_lora_rank", spec.latent_rank, 1, kMaxHeadDim));
  SOLI_RETURN_IF_ERROR(check_range(spec, "attention.q_lora_rank", spec.latent_query_rank, 0, kMaxHiddenSize));
  const bool is_older = spec.latent_key_dim == 0;  // the usual keys then mean a head
  if (is_older) {
    spec.latent_key_dim = spec.head_dim;
    spec.latent_value_dim = spec.value_dim;
  }
  SOLI_RETURN_IF_ERROR(check_range(spec, is_older ? "attention.key_length" : "attention.key_length_mla",
                                   spec.latent_key_dim, 3, kMaxHeadDim));
  SOLI_RETURN_IF_ERROR(check_range(spec, is_older ? "attention.value_length" : "attention.value_length_mla",
                                   spec.latent_value_dim, 1, kMaxHeadDim));
  SOLI_RETURN_IF_ERROR(check_range(spec, "rope.dimension_count", spec.rope_dims, 2, spec.latent_key_dim - 1));
  spec.n_kv_heads = 1;
  spec.head_dim = spec.latent_rank + spec.rope_dims;
  spec.value_dim = spec.latent_rank;
  return {};
}

Status finish_attention(const Family& family, ModelSpec& spec) {
  if (has_dim(family, Dim::kLatent)) {
    SOLI_RETURN_IF_ERROR(finish_latent(spec));
  } else {
    SOLI_RETURN_IF_ERROR(finish_heads(spec));
  }
  if (!(spec.attention_scale >= 0 && spec.attention_scale <= kMaxScale)) {
    return fail(ErrorKind::kMalformed, "{}.attention.scale: {} is not allowed; 0 to {}", spec.architecture,
                spec.attention_scale, kMaxScale);
  }
  return check_range(spec, "attention.sliding_window", spec.sliding_window, 0, kMaxContextLength);
}

/// The kinds of scaling that the file may name; "none" is linear by 1.
Status read_position_scaling(const GgufMetadata& metadata, const Family& family, ModelSpec& spec) {
  const std::string key = spec.architecture + ".rope.scaling.type";
  SOLI_ASSIGN_OR_RETURN(const std::string_view scaling, metadata.get_string_or(key, "linear"));
  const bool has_yarn = has_key(family, "rope.scaling.yarn_beta_fast");
  const bool has_long = has_vector(family, &GlobalWeights::rope_long_frequencies);
  if (scaling == "yarn" && has_yarn) {
    spec.position_scaling = PositionScaling::kYarn;
  } else if (scaling == "longrope" && has_long) {
    spec.position_scaling = PositionScaling::kLongRope;
  } else if (scaling != "linear" && scaling != "none") {
    return fail(ErrorKind::kUnsupported, "{}: '{}' is not supported; none, linear{}{} are", key,
                printable(scaling), has_yarn ? ", yarn" : "", has_long ? ", longrope" : "");
  }
  // 0 stands for "no scaling" in older files.
  if (scaling == "none" || spec.rope_scale == 0) spec.rope_scale = 1;
  return check_range(spec, "rope.scaling.factor", spec.rope_scale, kMinScale, kMaxScale);
}

Status finish_rope(const GgufMetadata& metadata, const Family& family, ModelSpec& spec) {
  if (spec.rope_dims == 0) spec.rope_dims = spec.head_dim;
  SOLI_RETURN_IF_ERROR(check_range(spec, "rope.dimension_count", spec.rope_dims, 2, spec.head_dim));
  if (spec.rope_dims % 2 != 0) {
    return fail(ErrorKind::kMalformed, "{}.rope.dimension_count: {} is odd; elements rotate in pairs",
                spec.architecture, spec.rope_dims);
  }
  SOLI_RETURN_IF_ERROR(check_range(spec, "rope.freq_base", spec.rope_base, kMinRopeBase, kMaxRopeBase));
  SOLI_RETURN_IF_ERROR(read_position_scaling(metadata, family, spec));
  SOLI_RETURN_IF_ERROR(check_range(spec, "rope.scaling.original_context_length", spec.rope_original_context,
                                   0, kMaxContextLength));
  SOLI_RETURN_IF_ERROR(
      check_range(spec, "rope.scaling.attn_factor", spec.rope_magnitude, kMinScale, kMaxScale));
  if (spec.position_scaling != PositionScaling::kYarn) return {};
  SOLI_RETURN_IF_ERROR(check_range(spec, "rope.freq_base", spec.rope_base, kMinYarnBase, kMaxRopeBase));
  SOLI_RETURN_IF_ERROR(
      check_range(spec, "rope.scaling.yarn_beta_fast", spec.yarn_beta_fast, kMinScale, kMaxScale));
  SOLI_RETURN_IF_ERROR(
      check_range(spec, "rope.scaling.yarn_beta_slow", spec.yarn_beta_slow, kMinScale, kMaxScale));
  return check_range(spec, "rope.scaling.yarn_log_multiplier", spec.yarn_log_multiplier, 0, kMaxScale);
}

/// Groups and scale of the router; 0 stands for "none" in files.
Status finish_router(ModelSpec& spec) {
  RouterSpec& router = spec.router;
  if (router.weight_scale == 0) router.weight_scale = 1;
  SOLI_RETURN_IF_ERROR(check_range(spec, "expert_weights_scale", router.weight_scale, -kMaxScale, kMaxScale));
  if (router.n_groups == 0) router.n_groups = 1;
  if (router.n_groups_used == 0) router.n_groups_used = router.n_groups;
  SOLI_RETURN_IF_ERROR(check_range(spec, "expert_group_count", router.n_groups, 1, router.n_experts));
  if (router.n_experts % router.n_groups != 0) {
    return fail(ErrorKind::kMalformed, "{0}.expert_group_count: {1} does not divide {0}.expert_count, {2}",
                spec.architecture, router.n_groups, router.n_experts);
  }
  SOLI_RETURN_IF_ERROR(
      check_range(spec, "expert_group_used_count", router.n_groups_used, 1, router.n_groups));
  if (router.experts_per_token > router.n_reachable()) {
    return fail(ErrorKind::kMalformed,
                "{}.expert_used_count: {} is not allowed; the groups that take part have {} experts",
                spec.architecture, router.experts_per_token, router.n_reachable());
  }
  return {};
}

/// Checks what the file says about experts, and forgets it where there are none: nothing then bounds it.
Status finish_feed_forward(ModelSpec& spec) {
  RouterSpec& router = spec.router;
  SOLI_RETURN_IF_ERROR(check_range(spec, "feed_forward_length", spec.ffn_width, 0, kMaxFfnWidth));
  SOLI_RETURN_IF_ERROR(check_range(spec, "expert_count", router.n_experts, 0, kMaxExperts));
  if (!spec.is_moe()) {
    router.experts_per_token = spec.shared_expert_width = spec.n_shared_experts = 0;
    spec.n_leading_dense_layers = 0;
    return {};
  }
  if (router.experts_per_token < 1 || router.experts_per_token > router.n_experts) {
    return fail(ErrorKind::kMalformed,
                "{0}.expert_used_count: {1} is not allowed with {0}.expert_count {2}; 1 to {2}",
                spec.architecture, router.experts_per_token, router.n_experts);
  }
  SOLI_RETURN_IF_ERROR(check_range(spec, "expert_shared_count", spec.n_shared_experts, 0, kMaxExperts));
  SOLI_RETURN_IF_ERROR(check_range(spec, "interleave_moe_layer_step", spec.moe_layer_step, 1, kMaxLayers));
  SOLI_RETURN_IF_ERROR(
      check_range(spec, "leading_dense_block_count", spec.n_leading_dense_layers, 0, spec.n_layers - 1));
  if (spec.n_moe_layers() == 0) {
    return fail(ErrorKind::kMalformed, "{}.interleave_moe_layer_step: {} leaves no layer with experts",
                spec.architecture, spec.moe_layer_step);
  }
  return finish_router(spec);
}

/// Factors that a few families have; 0 stands for "none" in files.
Status finish_scales(ModelSpec& spec) {
  if (spec.embedding_scale == 0) spec.embedding_scale = 1;
  if (spec.residual_scale == 0) spec.residual_scale = 1;
  SOLI_RETURN_IF_ERROR(check_range(spec, "embedding_scale", spec.embedding_scale, -kMaxScale, kMaxScale));
  SOLI_RETURN_IF_ERROR(check_range(spec, "residual_scale", spec.residual_scale, -kMaxScale, kMaxScale));
  return check_range(spec, "logit_scale", spec.logit_scale, kMinScale, kMaxScale);
}

Status refuse_what_is_not_computed(const GgufMetadata& metadata, const ModelSpec& spec) {
  for (const std::string_view suffix : kNotComputed) {
    const std::string key = fmt::format("{}.{}", spec.architecture, suffix);
    if (!metadata.has(key)) continue;
    SOLI_ASSIGN_OR_RETURN(const double value, metadata.get_float(key));
    if (value != 0) return fail(ErrorKind::kUnsupported, "{}: {} is not supported; 0 (none) is", key, value);
  }
  return {};
}

}  // namespace

Result<ModelSpec> read_spec(const GgufFile& gguf, const Family& family) {
  const GgufMetadata& metadata = gguf.metadata();
  ModelSpec spec = family.defaults;
  for (const KeySlot& slot : family.keys) SOLI_RETURN_IF_ERROR(read_key(metadata, slot, spec));
  SOLI_ASSIGN_OR_RETURN(const std::string_view name, metadata.get_string_or("general.name", ""));
  spec.name = name;
  SOLI_RETURN_IF_ERROR(refuse_what_is_not_computed(metadata, spec));
  SOLI_RETURN_IF_ERROR(check_sizes(spec));
  SOLI_RETURN_IF_ERROR(finish_attention(family, spec));
  SOLI_RETURN_IF_ERROR(finish_rope(metadata, family, spec));
  SOLI_RETURN_IF_ERROR(finish_feed_forward(spec));
  SOLI_RETURN_IF_ERROR(finish_scales(spec));
  return spec;
}

}  // namespace soli
