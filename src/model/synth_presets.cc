// Shapes of published models, as their files on Hugging Face state them (config.json).

#include <fmt/ranges.h>
#include <strings.h>

#include <algorithm>

#include "model/synth.h"

namespace soli {
namespace {

/// Sizes of a model; 0 where a family has no such thing or it follows from the others.
struct Shape {
  std::string_view name;
  std::string_view family;
  int64_t n_layers;
  int64_t hidden_size;
  int64_t n_heads;
  int64_t n_kv_heads;
  int64_t head_dim;
  int64_t ffn_width;
  int64_t vocab_size;
  int64_t context_length;
  double rope_base;
  double norm_epsilon;
  bool tied_output = false;
  int64_t n_experts = 0;
  int64_t experts_per_token = 0;
  int64_t expert_width = 0;
  int64_t shared_expert_width = 0;
};

constexpr Shape kShapes[] = {
    {.name = "tiny",
     .family = "olmoe",
     .n_layers = 2,
     .hidden_size = 64,
     .n_heads = 4,
     .n_kv_heads = 2,
     .head_dim = 0,
     .ffn_width = 64,
     .vocab_size = 320,
     .context_length = 512,
     .rope_base = 1e4,
     .norm_epsilon = 1e-5,
     .n_experts = 8,
     .experts_per_token = 2,
     .expert_width = 64,
     .shared_expert_width = 64},
    {.name = "olmoe-1b-7b",
     .family = "olmoe",
     .n_layers = 16,
     .hidden_size = 2048,
     .n_heads = 16,
     .n_kv_heads = 16,
     .head_dim = 128,
     .ffn_width = 1024,
     .vocab_size = 50304,
     .context_length = 4096,
     .rope_base = 1e4,
     .norm_epsilon = 1e-5,
     .n_experts = 64,
     .experts_per_token = 8,
     .expert_width = 1024},
    {.name = "qwen3-30b-a3b",
     .family = "qwen3moe",
     .n_layers = 48,
     .hidden_size = 2048,
     .n_heads = 32,
     .n_kv_heads = 4,
     .head_dim = 128,
     .ffn_width = 6144,
     .vocab_size = 151936,
     .context_length = 40960,
     .rope_base = 1e6,
     .norm_epsilon = 1e-6,
     .n_experts = 128,
     .experts_per_token = 8,
     .expert_width = 768},
    {.name = "mixtral-8x7b",
     .family = "llama",
     .n_layers = 32,
     .hidden_size = 4096,
     .n_heads = 32,
     .n_kv_heads = 8,
     .head_dim = 128,
     .ffn_width = 14336,
     .vocab_size = 32000,
     .context_length = 32768,
     .rope_base = 1e6,
     .norm_epsilon = 1e-5,
     .n_experts = 8,
     .experts_per_token = 2,
     .expert_width = 14336},
    {.name = "qwen1.5-moe-a2.7b",
     .family = "qwen2moe",
     .n_layers = 24,
     .hidden_size = 2048,
     .n_heads = 16,
     .n_kv_heads = 16,
     .head_dim = 128,
     .ffn_width = 5632,
     .vocab_size = 151936,
     .context_length = 8192,
     .rope_base = 1e6,
     .norm_epsilon = 1e-6,
     .n_experts = 60,
     .experts_per_token = 4,
     .expert_width = 1408,
     .shared_expert_width = 5632},
    {.name = "llama-3.2-1b",
     .family = "llama",
     .n_layers = 16,
     .hidden_size = 2048,
     .n_heads = 32,
     .n_kv_heads = 8,
     .head_dim = 64,
     .ffn_width = 8192,
     .vocab_size = 128256,
     .context_length = 131072,
     .rope_base = 5e5,
     .norm_epsilon = 1e-5,
     .tied_output = true},
    {.name = "qwen3-0.6b",
     .family = "qwen3",
     .n_layers = 28,
     .hidden_size = 1024,
     .n_heads = 16,
     .n_kv_heads = 8,
     .head_dim = 128,
     .ffn_width = 3072,
     .vocab_size = 151936,
     .context_length = 40960,
     .rope_base = 1e6,
     .norm_epsilon = 1e-6,
     .tied_output = true},
};

bool has_shared_experts(const Family& family) {
  return std::any_of(family.linears.begin(), family.linears.end(),
                     [](const LinearSlot& slot) { return slot.rows == Dim::kSharedWidth; });
}

/// The part of a shape that the family has a use for.
SynthOptions options_of(const Shape& shape, const Family& family) {
  SynthOptions options;
  ModelSpec& spec = options.spec;
  spec = family.defaults;
  spec.name = std::string(shape.name) + " (random weights)";
  spec.n_layers = shape.n_layers;
  spec.hidden_size = shape.hidden_size;
  spec.n_heads = shape.n_heads;
  spec.n_kv_heads = shape.n_kv_heads;
  spec.head_dim = shape.head_dim;
  spec.ffn_width = shape.ffn_width;
  spec.vocab_size = shape.vocab_size;
  spec.context_length = shape.context_length;
  spec.rope_base = shape.rope_base;
  spec.norm_epsilon = shape.norm_epsilon;
  options.tied_output = shape.tied_output;
  if (family.experts.empty()) return options;
  spec.router.n_experts = shape.n_experts;
  spec.router.experts_per_token = shape.experts_per_token;
  spec.expert_width = shape.expert_width;
  if (has_shared_experts(family)) spec.shared_expert_width = shape.shared_expert_width;
  return options;
}

}  // namespace

std::array<uint32_t, kParts> SynthOptions::uniform_types(uint32_t type) {
  std::array<uint32_t, kParts> types;
  types.fill(type);
  types[static_cast<size_t>(Part::kNorms)] = kGgmlF32;
  types[static_cast<size_t>(Part::kRouter)] = kGgmlF32;
  return types;
}

std::vector<std::string_view> synth_preset_names() {
  std::vector<std::string_view> names;
  for (const Shape& shape : kShapes) names.push_back(shape.name);
  return names;
}

Result<SynthOptions> synth_preset(std::string_view name) {
  for (const Shape& shape : kShapes) {
    if (shape.name == name) return options_of(shape, *find_family(shape.family));
  }
  return fail(ErrorKind::kInvalidArgument, "preset: '{}' is not known; these are: {}", name,
              fmt::join(synth_preset_names(), ", "));
}

Result<SynthOptions> tiny_synth(std::string_view family_name) {
  const Family* family = find_family(family_name);
  if (family == nullptr) {
    return fail(ErrorKind::kInvalidArgument, "family: '{}' is not known; these are: {}", family_name,
                fmt::join(family_names(), ", "));
  }
  return options_of(kShapes[0], *family);
}

Result<uint32_t> weight_type_of_name(const kernels::KernelTable& kernels, std::string_view name) {
  std::vector<std::string_view> names;
  for (const kernels::WeightKernels& type : kernels.weights) {
    if (type.name.size() == name.size() && ::strncasecmp(type.name.data(), name.data(), name.size()) == 0) {
      return type.gguf_type;
    }
    names.push_back(type.name);
  }
  return fail(ErrorKind::kInvalidArgument, "weight type: '{}' is not known; these are: {}", name,
              fmt::join(names, ", "));
}

}  // namespace soli
