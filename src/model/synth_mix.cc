#include "model/synth_mix.h"

#include <strings.h>

#include "base/check.h"
#include "format/ggml_types.h"

namespace soli {
namespace {

bool no_layer(int64_t, int64_t) { return false; }
bool first_four(int64_t layer, int64_t) { return layer < 4; }
bool first_eighth(int64_t layer, int64_t n_layers) { return layer < n_layers / 8; }

/// The first and the last eighth, and every third layer between them.
bool spread_half(int64_t layer, int64_t n_layers) {
  const int64_t eighth = n_layers / 8;
  return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

constexpr TypeMix k_mix(std::string_view name, uint32_t base, uint32_t raised, LayerRule raises_value,
                        LayerRule raises_down) {
  return {.name = name,
          .base = base,
          .routed_experts = base,
          .head = kGgmlQ6_K,
          .raised = raised,
          .raises_value = raises_value,
          .raises_down = raises_down,
          .key_value_of_8 = kGgmlQ8_0,
          .attention_output_of_8 = kGgmlQ5_K};
}

constexpr TypeMix kMixes[] = {
    k_mix("Q4_K_S", kGgmlQ4_K, kGgmlQ5_K, first_four, first_eighth),
    k_mix("Q4_K_M", kGgmlQ4_K, kGgmlQ6_K, spread_half, spread_half),
    k_mix("Q5_K_S", kGgmlQ5_K, kGgmlQ5_K, no_layer, no_layer),
    k_mix("Q5_K_M", kGgmlQ5_K, kGgmlQ6_K, spread_half, spread_half),
    {.name = "MXFP4_MOE",
     .base = kGgmlQ8_0,
     .routed_experts = kGgmlMXFP4,
     .head = kGgmlQ8_0,
     .raised = kGgmlQ8_0,
     .raises_value = no_layer,
     .raises_down = no_layer,
     .key_value_of_8 = kGgmlQ8_0,
     .attention_output_of_8 = kGgmlQ8_0},
};

uint32_t attention_type(const TypeMix& mix, const ModelSpec& spec, Dim rows, int64_t layer) {
  const bool is_value = rows == Dim::kValueRow;
  if (spec.router.n_experts == 8) {
    if (is_value || rows == Dim::kKeyRow) return mix.key_value_of_8;
    if (rows == Dim::kHidden) return mix.attention_output_of_8;
  }
  return is_value && mix.raises_value(layer, spec.n_layers) ? mix.raised : mix.base;
}

}  // namespace

const TypeMix* find_type_mix(std::string_view name) {
  for (const TypeMix& mix : kMixes) {
    if (mix.name.size() == name.size() && ::strncasecmp(mix.name.data(), name.data(), name.size()) == 0)
      return &mix;
  }
  return nullptr;
}

std::vector<std::string_view> type_mix_names() {
  std::vector<std::string_view> names;
  for (const TypeMix& mix : kMixes) names.push_back(mix.name);
  return names;
}

uint32_t type_in_mix(const TypeMix& mix, const ModelSpec& spec, bool tied, Part part, Dim rows,
                     int64_t layer) {
  const bool is_down = rows == Dim::kHidden;
  switch (part) {
    case Part::kNorms:
    case Part::kRouter:
      return kGgmlF32;
    case Part::kEmbedding:
      return tied ? mix.head : mix.base;
    case Part::kOutputHead:
      return mix.head;
    case Part::kAttention:
      return attention_type(mix, spec, rows, layer);
    case Part::kDenseFfn:
    case Part::kSharedExperts:
      return is_down && mix.raises_down(layer, spec.n_layers) ? mix.raised : mix.base;
    case Part::kRoutedExperts:
      return is_down && mix.raises_down(layer, spec.n_layers) ? mix.raised : mix.routed_experts;
  }
  SOLI_CHECK(false, "unknown part");
}

}  // namespace soli
