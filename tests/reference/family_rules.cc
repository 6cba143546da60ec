#include "reference/family_rules.h"

#include "base/check.h"

namespace soli::reference {
namespace {

constexpr FamilyRules kRules[] = {
    {.architecture = "llama", .adjacent_pairs = true, .renormalise = Renormalise::kAlways},
    {.architecture = "qwen2"},
    {.architecture = "qwen2moe"},
    {.architecture = "qwen3"},
    {.architecture = "qwen3moe", .renormalise = Renormalise::kAlways},
    {.architecture = "qwen3vlmoe", .renormalise = Renormalise::kAlways},
    {.architecture = "olmoe"},
    {.architecture = "deepseek2",
     .adjacent_pairs = true,
     .gating = Gating::kKeyOrSoftmax,
     .renormalise = Renormalise::kByKey,
     .scale_by_key = true},
    {.architecture = "gpt-oss",
     .gating = Gating::kSoftmaxChosen,
     .whole_head_rotates = true,
     .window_on_even_layers = true,
     .clamped_activation = true},
    {.architecture = "phimoe", .renormalise = Renormalise::kAlways},
    {.architecture = "glm4moe",
     .gating = Gating::kKeyOrSigmoid,
     .renormalise = Renormalise::kByKey,
     .scale_by_key = true},
    {.architecture = "dots1",
     .gating = Gating::kKeyOrSoftmax,
     .renormalise = Renormalise::kByKey,
     .scale_by_key = true},
    {.architecture = "minimax-m2", .gating = Gating::kKeyOrSigmoid, .renormalise = Renormalise::kAlways},
    {.architecture = "ernie4_5-moe", .adjacent_pairs = true, .renormalise = Renormalise::kAlways},
    {.architecture = "hunyuan-moe", .renormalise = Renormalise::kAlways, .norm_after_rope = true},
    {.architecture = "bailingmoe2",
     .gating = Gating::kKeyOrSigmoid,
     .renormalise = Renormalise::kByKey,
     .scale_by_key = true},
    {.architecture = "granitemoe", .adjacent_pairs = true, .renormalise = Renormalise::kAlways},
};

}  // namespace

const FamilyRules& rules_of(const std::string& architecture) {
  for (const FamilyRules& rules : kRules) {
    if (architecture == rules.architecture) return rules;
  }
  SOLI_CHECK(false, "the reference knows no {}", architecture);
}

}  // namespace soli::reference
