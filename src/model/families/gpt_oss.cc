// gpt-oss (OpenAI 2025): a window in every other layer, sinks, biases everywhere, and its own activation.

#include "model/family_parts.h"

namespace soli {

Family gpt_oss_family() {
  Family family = decoder_family("gpt-oss");
  family.defaults.activation = Activation::kSwiGluClamped;
  // The part that rotates is the head, whatever hidden_size / n_heads is.
  family.keys.push_back({"rope.dimension_count", &ModelSpec::head_dim, false});
  require_qkv_bias(family);
  require_attention_output_bias(family);
  rename_ffn_norm(family, "blk.{}.post_attention_norm.weight");
  add_sliding_window(family, 2);
  add_sinks(family);
  add_yarn(family);
  add_experts(family, {.gating = Gating::kSoftmaxChosen});
  add_expert_biases(family);
  return family;
}

}  // namespace soli
