#include <cmath>
#include <string>
#include <type_traits>

#include "base/utf8.h"
#include "model/model_file.h"

namespace soli {
namespace {

// Wide around every published model. Outside of them, angles are no longer numbers.
constexpr double kMinRopeBase = 1e-6;
constexpr double kMaxRopeBase = 1e12;
constexpr double kMinRopeScale = 1e-6;
constexpr double kMaxRopeScale = 1e6;

/// Reads one metadata key into its field of the spec.
Status read_key(const GgufMetadata& metadata, const KeySlot& slot, ModelSpec& spec) {
  const std::string key = spec.architecture + "." + slot.suffix;
  if (!slot.required && !metadata.has(key)) return {};
  if (const auto* field = std::get_if<double ModelSpec::*>(&slot.field)) {
    SOLI_ASSIGN_OR_RETURN(spec.**field, metadata.get_float(key));
    return {};
  }
  SOLI_ASSIGN_OR_RETURN(const uint64_t value, metadata.get_uint(key));
  if (value > uint64_t{1} << 62) {
    return fail(ErrorKind::kMalformed, "{}: {} is beyond every limit", key, value);
  }
  const auto count = static_cast<int64_t>(value);
  if (const auto* field = std::get_if<int64_t ModelSpec::*>(&slot.field)) {
    spec.** field = count;
  } else {
    spec.router.*std::get<int64_t RouterSpec::*>(slot.field) = count;
  }
  return {};
}

/// Fails unless low <= value <= high. NaN is in no range.
template <typename Number>
Status check_range(const ModelSpec& spec, const char* suffix, Number value, std::type_identity_t<Number> low,
                   std::type_identity_t<Number> high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorKind::kMalformed, "{}.{}: {} is not allowed; {} to {}", spec.architecture, suffix, value,
              low, high);
}

Status check_sizes(const ModelSpec& spec) {
  SOLI_RETURN_IF_ERROR(check_range(spec, "block_count", spec.n_layers, 1, kMaxLayers));
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
Status finish_attention(ModelSpec& spec) {
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

Status finish_rope(const GgufMetadata& metadata, ModelSpec& spec) {
  if (spec.rope_dims == 0) spec.rope_dims = spec.head_dim;
  SOLI_RETURN_IF_ERROR(check_range(spec, "rope.dimension_count", spec.rope_dims, 2, spec.head_dim));
  if (spec.rope_dims % 2 != 0) {
    return fail(ErrorKind::kMalformed, "{}.rope.dimension_count: {} is odd; elements rotate in pairs",
                spec.architecture, spec.rope_dims);
  }
  SOLI_RETURN_IF_ERROR(check_range(spec, "rope.freq_base", spec.rope_base, kMinRopeBase, kMaxRopeBase));
  const std::string key = spec.architecture + ".rope.scaling.type";
  SOLI_ASSIGN_OR_RETURN(const std::string_view scaling, metadata.get_string_or(key, "linear"));
  if (scaling == "none" || spec.rope_scale == 0) {
    spec.rope_scale = 1;  // 0 stands for "no scaling" in older files
  } else if (scaling != "linear") {
    return fail(ErrorKind::kUnsupported, "{}: '{}' is not supported; none and linear are", key,
                printable(scaling));
  }
  return check_range(spec, "rope.scaling.factor", spec.rope_scale, kMinRopeScale, kMaxRopeScale);
}

/// Checks what the file says about experts, and forgets it where there are none: nothing then bounds it.
Status finish_feed_forward(ModelSpec& spec) {
  RouterSpec& router = spec.router;
  SOLI_RETURN_IF_ERROR(check_range(spec, "feed_forward_length", spec.ffn_width, 0, kMaxFfnWidth));
  SOLI_RETURN_IF_ERROR(check_range(spec, "expert_count", router.n_experts, 0, kMaxExperts));
  if (!spec.is_moe()) {
    router.experts_per_token = spec.shared_expert_width = 0;
    return {};
  }
  if (router.experts_per_token < 1 || router.experts_per_token > router.n_experts) {
    return fail(ErrorKind::kMalformed,
                "{0}.expert_used_count: {1} is not allowed with {0}.expert_count {2}; 1 to {2}",
                spec.architecture, router.experts_per_token, router.n_experts);
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
  SOLI_RETURN_IF_ERROR(check_sizes(spec));
  SOLI_RETURN_IF_ERROR(finish_attention(spec));
  SOLI_RETURN_IF_ERROR(finish_rope(metadata, spec));
  SOLI_RETURN_IF_ERROR(finish_feed_forward(spec));
  return spec;
}

}  // namespace soli
