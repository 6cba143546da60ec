#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "format/tokenizer_spec.h"
#include "model/model_file.h"
#include "model/spec_limits.h"
#include "model/synth.h"

namespace soli {
namespace {

constexpr int64_t kMaxWidth = int64_t{1} << 22;  // of a feed-forward; above every published model
constexpr size_t kMaxNameBytes = 4096;

Status check_range(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorKind::kInvalidArgument, "{}: {} is not allowed; {} to {}", field, value, low, high);
}

/// NaN is in no range.
Status check_range(const char* field, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorKind::kInvalidArgument, "{}: {} is not allowed; {} to {}", field, value, low, high);
}

/// Copies the fields that the family's keys state; files hold floats.
void copy_keys(const Family& family, const ModelSpec& from, ModelSpec& to) {
  for (const KeySlot& slot : family.keys) {
    const auto copy = [&](auto field) {
      const auto value = field_of(from, field);
      if constexpr (std::is_same_v<decltype(value), const double>) {
        field_of(to, field) = static_cast<double>(static_cast<float>(value));
      } else {
        field_of(to, field) = value;
      }
    };
    std::visit(copy, slot.field);
  }
}

/// Fails if a size was asked for that no key and no tensor of the family has.
Status check_used(const Family& family, const char* field, int64_t asked, int64_t kept) {
  if (asked == kept) return {};
  return fail(ErrorKind::kInvalidArgument, "{}: {} is not allowed; models of the family {} have {}", field,
              asked, family.defaults.architecture, kept);
}

Status check_heads(ModelSpec& spec) {
  if (spec.n_kv_heads == 0) spec.n_kv_heads = spec.n_heads;
  SOLI_RETURN_IF_ERROR(check_range("n_kv_heads", spec.n_kv_heads, 1, spec.n_heads));
  if (spec.n_heads % spec.n_kv_heads != 0) {
    return fail(ErrorKind::kInvalidArgument, "n_kv_heads: {} is not allowed with n_heads {}; a divisor of it",
                spec.n_kv_heads, spec.n_heads);
  }
  if (spec.head_dim == 0) {
    if (spec.hidden_size % spec.n_heads != 0) {
      return fail(ErrorKind::kInvalidArgument,
                  "n_heads: {} is not allowed with hidden_size {} and no head_dim; a divisor of it",
                  spec.n_heads, spec.hidden_size);
    }
    spec.head_dim = spec.hidden_size / spec.n_heads;
  }
  if (spec.value_dim == 0) spec.value_dim = spec.head_dim;
  SOLI_RETURN_IF_ERROR(check_range("head_dim", spec.head_dim, 2, kMaxHeadDim));
  return check_range("value_dim", spec.value_dim, 1, kMaxHeadDim);
}

/// What is kept of a position follows from the ranks.
Status check_latent(ModelSpec& spec) {
  SOLI_RETURN_IF_ERROR(check_range("latent_rank", spec.latent_rank, 1, kMaxHeadDim));
  SOLI_RETURN_IF_ERROR(check_range("latent_query_rank", spec.latent_query_rank, 0, kMaxHiddenSize));
  SOLI_RETURN_IF_ERROR(check_range("latent_key_dim", spec.latent_key_dim, 3, kMaxHeadDim));
  SOLI_RETURN_IF_ERROR(check_range("latent_value_dim", spec.latent_value_dim, 1, kMaxHeadDim));
  SOLI_RETURN_IF_ERROR(check_range("rope_dims", spec.rope_dims, 2, spec.latent_key_dim - 1));
  spec.n_kv_heads = 1;
  spec.head_dim = spec.latent_rank + spec.rope_dims;
  spec.value_dim = spec.latent_rank;
  return {};
}

Status check_attention(const Family& family, ModelSpec& spec) {
  SOLI_RETURN_IF_ERROR(check_range("n_heads", spec.n_heads, 1, kMaxHeads));
  SOLI_RETURN_IF_ERROR(check_range("attention_scale", spec.attention_scale, 0.0, kMaxScale));
  SOLI_RETURN_IF_ERROR(check_range("sliding_window", spec.sliding_window,
                                   has_key(family, "attention.sliding_window") ? 1 : 0, kMaxContextLength));
  return has_dim(family, Dim::kLatent) ? check_latent(spec) : check_heads(spec);
}

Status check_rope(const Family& family, ModelSpec& spec) {
  if (spec.rope_dims == 0) spec.rope_dims = spec.head_dim;
  SOLI_RETURN_IF_ERROR(check_range("rope_dims", spec.rope_dims, 2, spec.head_dim));
  if (spec.rope_dims % 2 != 0) {
    return fail(ErrorKind::kInvalidArgument, "rope_dims: {} is not allowed; an even number", spec.rope_dims);
  }
  const bool is_yarn = spec.position_scaling == PositionScaling::kYarn;
  const bool is_long = spec.position_scaling == PositionScaling::kLongRope;
  if ((is_yarn && !has_key(family, "rope.scaling.yarn_beta_fast")) ||
      (is_long && !has_vector(family, &GlobalWeights::rope_long_frequencies))) {
    return fail(ErrorKind::kInvalidArgument, "position_scaling: models of the family {} do not have {}",
                spec.architecture, is_yarn ? "yarn" : "longrope");
  }
  SOLI_RETURN_IF_ERROR(
      check_range("rope_base", spec.rope_base, is_yarn ? kMinYarnBase : kMinRopeBase, kMaxRopeBase));
  SOLI_RETURN_IF_ERROR(
      check_range("rope_original_context", spec.rope_original_context, 0, kMaxContextLength));
  SOLI_RETURN_IF_ERROR(check_range("rope_magnitude", spec.rope_magnitude, kMinScale, kMaxScale));
  SOLI_RETURN_IF_ERROR(check_range("yarn_beta_fast", spec.yarn_beta_fast, kMinScale, kMaxScale));
  SOLI_RETURN_IF_ERROR(check_range("yarn_beta_slow", spec.yarn_beta_slow, kMinScale, kMaxScale));
  SOLI_RETURN_IF_ERROR(check_range("yarn_log_multiplier", spec.yarn_log_multiplier, 0.0, kMaxScale));
  return check_range("rope_scale", spec.rope_scale, kMinScale, kMaxScale);
}

Status check_router(const RouterSpec& router) {
  SOLI_RETURN_IF_ERROR(check_range("experts_per_token", router.experts_per_token, 1, router.n_experts));
  SOLI_RETURN_IF_ERROR(check_range("n_groups", router.n_groups, 1, router.n_experts));
  if (router.n_experts % router.n_groups != 0) {
    return fail(ErrorKind::kInvalidArgument, "n_groups: {} is not allowed with n_experts {}; a divisor of it",
                router.n_groups, router.n_experts);
  }
  SOLI_RETURN_IF_ERROR(check_range("n_groups_used", router.n_groups_used, 1, router.n_groups));
  SOLI_RETURN_IF_ERROR(check_range("experts_per_token", router.experts_per_token, 1, router.n_reachable()));
  return check_range("weight_scale", router.weight_scale, -kMaxScale, kMaxScale);
}

/// Shared experts: their width as a multiple of an expert's, where the file says how many there are.
Status check_shared_experts(const Family& family, ModelSpec& spec) {
  const bool has_shared = has_dim(family, Dim::kSharedWidth);
  const bool has_gate = has_dim(family, Dim::kOne);
  const bool counts = has_key(family, "expert_shared_count");
  SOLI_RETURN_IF_ERROR(check_range("shared_expert_width", spec.shared_expert_width, has_gate ? 1 : 0,
                                   has_shared ? kMaxWidth : 0));
  if (!counts) return {};
  SOLI_RETURN_IF_ERROR(check_range("n_shared_experts", spec.n_shared_experts, 0, kMaxExperts));
  if (spec.n_shared_experts == 0) spec.n_shared_experts = spec.shared_expert_width / spec.expert_width;
  if (spec.shared_expert_width == 0) spec.shared_expert_width = spec.n_shared_experts * spec.expert_width;
  SOLI_RETURN_IF_ERROR(check_range("shared_expert_width", spec.shared_expert_width, 0, kMaxWidth));
  if (spec.shared_expert_width == spec.n_shared_experts * spec.expert_width) return {};
  return fail(ErrorKind::kInvalidArgument,
              "shared_expert_width: {} is not allowed with expert_width {}; a multiple of it",
              spec.shared_expert_width, spec.expert_width);
}

/// Sizes of feed-forwards. Without experts, what they would have is left out.
Status check_feed_forward(const Family& family, ModelSpec& spec) {
  SOLI_RETURN_IF_ERROR(check_range("n_experts", spec.router.n_experts, 0, kMaxExperts));
  if (!spec.is_moe()) {
    spec.router = family.defaults.router;
    spec.expert_width = spec.shared_expert_width = spec.n_shared_experts = spec.n_leading_dense_layers = 0;
    spec.moe_layer_step = family.defaults.moe_layer_step;
    return check_range("ffn_width", spec.ffn_width, 1, kMaxWidth);
  }
  SOLI_RETURN_IF_ERROR(check_router(spec.router));
  SOLI_RETURN_IF_ERROR(check_range("expert_width", spec.expert_width, 1, kMaxWidth));
  SOLI_RETURN_IF_ERROR(check_shared_experts(family, spec));
  SOLI_RETURN_IF_ERROR(
      check_range("n_leading_dense_layers", spec.n_leading_dense_layers, 0, spec.n_layers - 1));
  SOLI_RETURN_IF_ERROR(check_range("moe_layer_step", spec.moe_layer_step, 1, spec.n_layers));
  SOLI_RETURN_IF_ERROR(check_range("layers with experts", spec.n_moe_layers(), 1, spec.n_layers));
  // Other engines want the key even where no layer is dense.
  if (spec.ffn_width == 0) spec.ffn_width = spec.expert_width;
  return check_range("ffn_width", spec.ffn_width, 1, kMaxWidth);
}

Status check_sizes(const Family& family, ModelSpec& spec) {
  if (spec.name.size() > kMaxNameBytes) {
    return fail(ErrorKind::kInvalidArgument, "name: {} bytes are not allowed; up to {}", spec.name.size(),
                kMaxNameBytes);
  }
  SOLI_RETURN_IF_ERROR(check_range("n_layers", spec.n_layers, 1, kMaxLayers));
  SOLI_RETURN_IF_ERROR(check_range("hidden_size", spec.hidden_size, 1, kMaxHiddenSize));
  SOLI_RETURN_IF_ERROR(
      check_range("vocab_size", spec.vocab_size, kMinSynthVocab, static_cast<int64_t>(kMaxVocabularyTokens)));
  SOLI_RETURN_IF_ERROR(check_range("context_length", spec.context_length, 1, kMaxContextLength));
  SOLI_RETURN_IF_ERROR(check_range("norm_epsilon", spec.norm_epsilon, 0.0, 0.5));
  SOLI_RETURN_IF_ERROR(check_range("embedding_scale", spec.embedding_scale, -kMaxScale, kMaxScale));
  SOLI_RETURN_IF_ERROR(check_range("residual_scale", spec.residual_scale, -kMaxScale, kMaxScale));
  SOLI_RETURN_IF_ERROR(check_range("logit_scale", spec.logit_scale, kMinScale, kMaxScale));
  SOLI_RETURN_IF_ERROR(check_attention(family, spec));
  SOLI_RETURN_IF_ERROR(check_rope(family, spec));
  return check_feed_forward(family, spec);
}

/// "linear", "yarn" or "longrope".
Status set_position_scaling(std::string_view value, PositionScaling& scaling) {
  constexpr std::pair<std::string_view, PositionScaling> kNames[] = {
      {"linear", PositionScaling::kLinear},
      {"yarn", PositionScaling::kYarn},
      {"longrope", PositionScaling::kLongRope}};
  for (const auto& [name, kind] : kNames) {
    if (name != value) continue;
    scaling = kind;
    return {};
  }
  return fail(ErrorKind::kInvalidArgument, "rope.scaling.type: '{}' is not allowed; linear, yarn or longrope",
              printable(value));
}

Status set_field(std::string_view key, std::string_view text, const decltype(KeySlot::field)& slot,
                 ModelSpec& spec) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto set = [&](auto field) -> Status {
    auto& value = field_of(spec, field);
    using Value = std::remove_reference_t<decltype(value)>;
    const bool is_whole = number == std::floor(number) && std::abs(number) < 0x1p53;
    const double most = std::is_same_v<Value, bool>     ? 1
                        : std::is_same_v<Value, Gating> ? static_cast<double>(kGatingNumbers.size())
                                                        : 0x1p53;
    const double least = std::is_same_v<Value, Gating> ? 1 : 0;
    if constexpr (std::is_same_v<Value, double>) {
      value = number;
      return {};
    }
    if (!is_whole || number < least || number > most) {
      return fail(ErrorKind::kInvalidArgument, "{}: {} is not allowed; a whole number from {} to {}", key,
                  printable(text), least, most);
    }
    if constexpr (std::is_same_v<Value, Gating>) {
      value = kGatingNumbers[static_cast<size_t>(number) - 1];
    } else {
      value = static_cast<Value>(number);
    }
    return {};
  };
  if (error != std::errc() || end != text.data() + text.size())
    return fail(ErrorKind::kInvalidArgument, "{}: '{}' is not a number", key, printable(text));
  return std::visit(set, slot);
}

}  // namespace

Status set_synth_key(SynthOptions& options, std::string_view key, std::string_view value) {
  const Family* family = find_family(options.spec.architecture);
  SOLI_CHECK(family != nullptr, "architecture {}", options.spec.architecture);
  if (key == "rope.scaling.type") return set_position_scaling(value, options.spec.position_scaling);
  // A key may fill two fields.
  for (const KeySlot& slot : family->keys) {
    if (slot.suffix == key) SOLI_RETURN_IF_ERROR(set_field(key, value, slot.field, options.spec));
  }
  if (has_key(*family, key)) return {};
  std::vector<std::string_view> names = {"rope.scaling.type"};
  for (const KeySlot& each : family->keys) names.push_back(each.suffix);
  return fail(ErrorKind::kInvalidArgument, "key: '{}' is not one of the family {}; these are: {}",
              printable(key), family->defaults.architecture, fmt::join(names, ", "));
}

Result<ModelSpec> complete_synth_spec(const SynthOptions& options) {
  const ModelSpec& asked = options.spec;
  const Family* family = find_family(asked.architecture);
  if (family == nullptr) {
    return fail(ErrorKind::kInvalidArgument, "architecture: '{}' is not known; these are: {}",
                printable(asked.architecture), fmt::join(family_names(), ", "));
  }
  ModelSpec spec = family->defaults;
  copy_keys(*family, asked, spec);
  const auto check = [&](const char* field, auto member) {
    return check_used(*family, field, field_of(asked, member), field_of(spec, member));
  };
  SOLI_RETURN_IF_ERROR(check("n_experts", &RouterSpec::n_experts));
  SOLI_RETURN_IF_ERROR(check("n_groups", &RouterSpec::n_groups));
  SOLI_RETURN_IF_ERROR(check("n_leading_dense_layers", &ModelSpec::n_leading_dense_layers));
  SOLI_RETURN_IF_ERROR(check("moe_layer_step", &ModelSpec::moe_layer_step));
  SOLI_RETURN_IF_ERROR(check("latent_rank", &ModelSpec::latent_rank));
  SOLI_RETURN_IF_ERROR(check("sliding_window", &ModelSpec::sliding_window));
  SOLI_RETURN_IF_ERROR(check_range("n_prediction_layers", asked.n_prediction_layers, 0, 0));
  // These come from the shapes of tensors, whether or not a key states them too.
  spec.name = asked.name;
  spec.position_scaling = asked.position_scaling;
  spec.vocab_size = asked.vocab_size;
  spec.ffn_width = asked.ffn_width;
  spec.expert_width = asked.expert_width;
  spec.shared_expert_width = asked.shared_expert_width;
  SOLI_RETURN_IF_ERROR(check_sizes(*family, spec));
  const auto has_biases = [](const ExpertSlot& slot) { return !slot.bias_pattern.empty(); };
  if (options.fuse_experts && std::any_of(family->experts.begin(), family->experts.end(), has_biases)) {
    return fail(ErrorKind::kInvalidArgument, "fuse_experts: experts of the family {} have biases",
                spec.architecture);
  }
  return spec;
}

}  // namespace soli
