#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <type_traits>

#include "base/utf8.h"
#include "format/tokenizer_spec.h"
#include "model/model_file.h"
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
    std::visit(
        [&](auto field) {
          using Field = decltype(field);
          if constexpr (std::is_same_v<Field, double ModelSpec::*>) {
            to.*field = static_cast<double>(static_cast<float>(from.*field));
          } else if constexpr (std::is_same_v<Field, int64_t RouterSpec::*>) {
            to.router.*field = from.router.*field;
          } else {
            to.*field = from.*field;
          }
        },
        slot.field);
  }
}

/// Fails if a size was asked for that no key and no tensor of the family has.
Status check_used(const Family& family, const char* field, int64_t asked, int64_t kept) {
  if (asked == kept) return {};
  return fail(ErrorKind::kInvalidArgument, "{}: {} is not allowed; models of the family {} have {}", field,
              asked, family.defaults.architecture, kept);
}

Status check_attention(ModelSpec& spec) {
  SOLI_RETURN_IF_ERROR(check_range("n_heads", spec.n_heads, 1, kMaxHeads));
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

Status check_rope(ModelSpec& spec) {
  if (spec.rope_dims == 0) spec.rope_dims = spec.head_dim;
  SOLI_RETURN_IF_ERROR(check_range("rope_dims", spec.rope_dims, 2, spec.head_dim));
  if (spec.rope_dims % 2 != 0) {
    return fail(ErrorKind::kInvalidArgument, "rope_dims: {} is not allowed; an even number", spec.rope_dims);
  }
  SOLI_RETURN_IF_ERROR(check_range("rope_base", spec.rope_base, 1e-6, 1e12));
  return check_range("rope_scale", spec.rope_scale, 1e-6, 1e6);
}

/// Sizes of feed-forwards. Without experts, what they would have is left out.
Status check_feed_forward(const Family& family, ModelSpec& spec) {
  const auto& linears = family.linears;
  const bool has_shared = std::any_of(linears.begin(), linears.end(),
                                      [](const LinearSlot& slot) { return slot.rows == Dim::kSharedWidth; });
  SOLI_RETURN_IF_ERROR(check_range("n_experts", spec.router.n_experts, 0, kMaxExperts));
  if (!spec.is_moe()) {
    spec.router.experts_per_token = 0;
    spec.expert_width = spec.shared_expert_width = 0;
    return check_range("ffn_width", spec.ffn_width, 1, kMaxWidth);
  }
  SOLI_RETURN_IF_ERROR(
      check_range("experts_per_token", spec.router.experts_per_token, 1, spec.router.n_experts));
  SOLI_RETURN_IF_ERROR(check_range("expert_width", spec.expert_width, 1, kMaxWidth));
  SOLI_RETURN_IF_ERROR(check_range("shared_expert_width", spec.shared_expert_width, has_shared ? 1 : 0,
                                   has_shared ? kMaxWidth : 0));
  SOLI_RETURN_IF_ERROR(
      check_range("n_leading_dense_layers", spec.n_leading_dense_layers, 0, spec.n_layers - 1));
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
  SOLI_RETURN_IF_ERROR(check_attention(spec));
  SOLI_RETURN_IF_ERROR(check_rope(spec));
  return check_feed_forward(family, spec);
}

}  // namespace

Result<ModelSpec> complete_synth_spec(const SynthOptions& options) {
  const ModelSpec& asked = options.spec;
  const Family* family = find_family(asked.architecture);
  if (family == nullptr) {
    return fail(ErrorKind::kInvalidArgument, "architecture: '{}' is not known; these are: {}",
                printable(asked.architecture), fmt::join(family_names(), ", "));
  }
  ModelSpec spec = family->defaults;
  copy_keys(*family, asked, spec);
  SOLI_RETURN_IF_ERROR(check_used(*family, "n_experts", asked.router.n_experts, spec.router.n_experts));
  SOLI_RETURN_IF_ERROR(check_used(*family, "n_leading_dense_layers", asked.n_leading_dense_layers,
                                  spec.n_leading_dense_layers));
  // These come from the shapes of tensors, whether or not a key states them too.
  spec.name = asked.name;
  spec.vocab_size = asked.vocab_size;
  spec.ffn_width = asked.ffn_width;
  spec.expert_width = asked.expert_width;
  spec.shared_expert_width = asked.shared_expert_width;
  SOLI_RETURN_IF_ERROR(check_sizes(*family, spec));
  return spec;
}

}  // namespace soli
