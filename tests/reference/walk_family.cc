#include "reference/walk_family.h"

#include "base/check.h"

namespace soli::reference {
namespace {

constexpr WalkFamily kFamilies[] = {
    {.name = "llama", .experts = May::kSometimes, .expert_width_key = false, .rope_freqs = true},
    {.name = "qwen2", .experts = May::kNever, .qkv_bias = May::kAlways},
    {.name = "qwen3", .experts = May::kNever, .qk_norm = WalkNorm::kPerHead},
    {.name = "qwen2moe", .qkv_bias = May::kAlways, .shared = WalkShared::kGated},
    {.name = "qwen3moe", .qk_norm = WalkNorm::kPerHead},
    {.name = "qwen3vlmoe", .qk_norm = WalkNorm::kPerHead},
    {.name = "olmoe", .qk_norm = WalkNorm::kWholeRow, .expert_width_key = false},
    {.name = "deepseek2",
     .shared = WalkShared::kPlain,
     .selection_bias = May::kSometimes,
     .leading_dense = true,
     .gating_key = true,
     .weight_keys = true,
     .groups = true,
     .latent = true,
     .nextn = true,
     .yarn = true},
    {.name = "gpt-oss",
     .qkv_bias = May::kAlways,
     .o_bias = May::kAlways,
     .gpt_oss = true,
     .post_attention_norm = true,
     .yarn = true,
     .free_value_dim = false,
     .untied_only = true},
    {.name = "phimoe",
     .qkv_bias = May::kAlways,
     .o_bias = May::kAlways,
     .expert_width_key = false,
     .phi = true,
     .longrope = true,
     .free_value_dim = false,
     .untied_only = true},
    {.name = "glm4moe",
     .qkv_bias = May::kSometimes,
     .qk_norm = WalkNorm::kPerHeadSometimes,
     .shared = WalkShared::kPlainSometimes,
     .selection_bias = May::kAlways,
     .leading_dense = true,
     .gating_key = true,
     .weight_keys = true,
     .post_attention_norm = true,
     .nextn = true},
    {.name = "dots1",
     .qk_norm = WalkNorm::kPerHead,
     .shared = WalkShared::kPlain,
     .selection_bias = May::kSometimes,
     .leading_dense = true,
     .gating_key = true,
     .weight_keys = true,
     .untied_only = true},
    {.name = "minimax-m2",
     .qk_norm = WalkNorm::kWholeRow,
     .selection_bias = May::kAlways,
     .gating_key = true,
     .untied_only = true},
    {.name = "ernie4_5-moe",
     .o_bias = May::kSometimes,
     .shared = WalkShared::kPlainSometimes,
     .selection_bias = May::kSometimes,
     .leading_dense = true},
    {.name = "hunyuan-moe", .qk_norm = WalkNorm::kPerHead, .shared = WalkShared::kPlain},
    {.name = "bailingmoe2",
     .qk_norm = WalkNorm::kPerHead,
     .shared = WalkShared::kPlain,
     .selection_bias = May::kSometimes,
     .leading_dense = true,
     .gating_key = true,
     .weight_keys = true,
     .groups = true,
     .untied_only = true},
    {.name = "granitemoe",
     .o_bias = May::kSometimes,
     .shared = WalkShared::kPlainSometimes,
     .expert_width_key = false,
     .granite = true},
};

}  // namespace

const WalkFamily& walk_family(const std::string& name) {
  for (const WalkFamily& family : kFamilies) {
    if (name == family.name) return family;
  }
  SOLI_CHECK(false, "no walks over {}", name);
}

}  // namespace soli::reference
