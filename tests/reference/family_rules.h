#pragma once

// What a GGUF architecture name says about a model that its keys and tensors do not. The rest the reference
// takes from those: a bias, a norm or a shared expert is there if its tensor is.

#include <string>

namespace soli::reference {

enum class Gating {
  kSoftmax,        // over all experts, before the choice
  kSigmoid,        // of each
  kSoftmaxChosen,  // over the chosen, after the choice by logit
  kKeyOrSoftmax,   // expert_gating_func: 1 softmax, 2 sigmoid; absent or 0: softmax
  kKeyOrSigmoid,   // the same, absent or 0: sigmoid
};

enum class Renormalise { kNever, kAlways, kByKey };

struct FamilyRules {
  const char* architecture;
  bool adjacent_pairs = false;  // RoPE rotates (2i, 2i + 1), else (i, i + n / 2)
  Gating gating = Gating::kSoftmax;
  Renormalise renormalise = Renormalise::kNever;  // weights of the chosen sum to 1
  bool scale_by_key = false;                      // expert_weights_scale is read
  bool norm_after_rope = false;                   // of queries and keys
  bool whole_head_rotates = false;                // rope.dimension_count is the size of a head
  bool window_on_even_layers = false;             // attention.sliding_window is read
  bool clamped_activation = false;                // that of gpt-oss
};

const FamilyRules& rules_of(const std::string& architecture);

}  // namespace soli::reference
