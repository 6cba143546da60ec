#pragma once

// What files of each family may hold, for those that write random ones.

#include <string>
#include <vector>

namespace soli::reference {

enum class May { kNever, kSometimes, kAlways };
enum class WalkNorm { kNone, kPerHead, kPerHeadSometimes, kWholeRow };
enum class WalkShared { kNone, kGated, kPlain, kPlainSometimes };

struct WalkFamily {
  const char* name;
  May experts = May::kAlways;
  May qkv_bias = May::kNever;
  WalkNorm qk_norm = WalkNorm::kNone;
  May o_bias = May::kNever;
  WalkShared shared = WalkShared::kNone;
  May selection_bias = May::kNever;
  bool expert_width_key = true;  // expert_feed_forward_length, else feed_forward_length
  bool leading_dense = false;
  bool gating_key = false;
  bool weight_keys = false;  // expert_weights_norm and expert_weights_scale
  bool groups = false;
  bool latent = false;
  bool gpt_oss = false;  // sinks, windows, biases in router and experts
  bool phi = false;      // biases in norms and the output head
  bool post_attention_norm = false;
  bool nextn = false;
  bool granite = false;  // scales on embedding, residual, scores and logits
  bool yarn = false;
  bool longrope = false;
  bool free_value_dim = true;
  bool rope_freqs = false;
  bool untied_only = false;
};

const WalkFamily& walk_family(const std::string& name);

}  // namespace soli::reference
