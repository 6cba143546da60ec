// Phi-3.5-MoE (Abdin et al. 2024): norms and the output head have biases; positions stretch by longrope.

#include "model/family_parts.h"

namespace soli {

Family phimoe_family() {
  Family family = decoder_family("phimoe");
  require_qkv_bias(family);
  require_attention_output_bias(family);
  add_norm_and_head_biases(family);
  for (const bool is_long : {false, true}) {
    family.vectors.push_back(
        {is_long ? &GlobalWeights::rope_long_frequencies : &GlobalWeights::rope_short_frequencies,
         is_long ? "rope_factors_long.weight" : "rope_factors_short.weight", Dim::kRopePairs,
         Part::kAttention, Layers::kAll, false});
  }
  add_experts(family, {.gating = Gating::kSoftmax, .renormalise = true});
  return family;
}

}  // namespace soli
