#pragma once

// Model files with random weights: any supported family, any shape, any weight type with kernels. People test
// a machine with them before they download a large model. Everything comes from the tables of
// model/family.h, so that a family which is added there can be written here at once.

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/ggml_types.h"
#include "model/family.h"
#include "model/planted_routing.h"
#include "model/synth_mix.h"
#include "ops/runtime.h"

namespace soli {

/// A vocabulary has at least the 256 bytes, a beginning, an end, and one that fills up.
inline constexpr int64_t kMinSynthVocab = 259;
inline constexpr double kMaxRoutingSkew = 8;
/// In place of a weight type: what SynthOptions::mix says.
inline constexpr uint32_t kTypeByMix = UINT32_MAX;

/// What a synthetic file holds.
///
/// Weights are drawn so that activations keep their size through any number of layers: a row of `cols` inputs
/// has elements of variance 1 / cols; matrices that write into the residual stream are scaled by
/// 1 / sqrt(2 n_layers) besides; weights of norms are about 1, biases about 0. Rows of large matrices other
/// than the router are put together at random from a pool of a million quantised weights, so that writing
/// runs at the disk's speed.
///
/// `routing_skew` s makes some experts popular, other ones in each layer. Every embedding then holds, besides
/// its random part, the same constant, and the router reads it: the expert of rank r (1 is the most popular)
/// has the mean logit -s ln(r) sqrt(6) / pi, in units of the standard deviation of that logit over tokens.
/// If logits were Gumbel distributed around these means, the best expert of a token would be of rank r with a
/// probability proportional to r^-s (Zipf's law; Plackett, Luce), and its k best would be so many draws
/// without replacement. They are about normal, whose tail is thinner, so that the most popular ones get
/// somewhat more than that. 0 gives nearly uniform routing. What a model really chose, its activation report
/// says.
///
/// Where the output head is tied to the embedding the model tends to repeat its last token.
struct SynthOptions {
  /// Sizes. Axes are always those of the family that `architecture` names. Without experts (n_experts 0) the
  /// file is dense, and the experts' other sizes are left out.
  ModelSpec spec;
  bool tied_output = false;
  /// Weight type (a GgmlTypeId with kernels) of the matrices of each part; norms and biases are F32 always. A
  /// matrix whose rows are no whole blocks of its type is written as Q8_0, or F16 where that has none either.
  std::array<uint32_t, kParts> types = uniform_types(kGgmlQ8_0);
  /// Decides in the parts whose type is kTypeByMix.
  const TypeMix* mix = nullptr;
  uint64_t seed = 0;
  double routing_skew = 0;
  /// A routing that is known; in place of a skew. The truth is in the file too, as JSON under the key
  /// "soli.planted_routing".
  std::optional<PlantedSpec> planted = {};
  /// One tensor for q, k and v, or with latent attention the older layout: keys' and values' weights in one.
  bool fuse_attention = false;
  /// One tensor for gate and up of the experts.
  bool fuse_experts = false;

  /// One type for all matrices but the router's, which are F32.
  static std::array<uint32_t, kParts> uniform_types(uint32_t type);
  /// Leaves the types of all matrices but the router's to a mixture.
  void use_mix(const TypeMix& types_of_matrices) {
    types = uniform_types(kTypeByMix);
    mix = &types_of_matrices;
  }
  uint32_t& type_of(Part part) { return types[static_cast<size_t>(part)]; }
  uint32_t type_of(Part part) const { return types[static_cast<size_t>(part)]; }
};

/// Shapes of published models, and "tiny". Fails with kInvalidArgument, listing the names.
Result<SynthOptions> synth_preset(std::string_view name);
std::vector<std::string_view> synth_preset_names();

/// A tiny model of a family, with experts (shared ones too) if the family can have them: what other shapes
/// start from. Fails with kInvalidArgument, listing the families.
Result<SynthOptions> tiny_synth(std::string_view family);

/// The id of a weight type that this table has kernels for, by its name ("Q4_K", in any case). Fails with
/// kInvalidArgument, listing the names.
Result<uint32_t> weight_type_of_name(const kernels::KernelTable& kernels, std::string_view name);

/// Sets what a key of the family stands for, by its name without the architecture, such as
/// "attention.sliding_window", or "rope.scaling.type" (linear, yarn or longrope). Fails with kInvalidArgument
/// for another key, listing those of the family, or another value.
Status set_synth_key(SynthOptions& options, std::string_view key, std::string_view value);

/// The spec as a reader of the written file will see it: axes of the family, sizes that were left 0 and
/// follow from others filled in, floating-point values rounded as the file holds them. Fails with
/// kInvalidArgument for a size outside of its range or that the family has no use for, naming the field and
/// what is allowed.
Result<ModelSpec> complete_synth_spec(const SynthOptions& options);

/// PlantedRouting::truth() of the file that these options make; null where nothing is planted. Fails as
/// write_synthetic_model does.
Result<nlohmann::ordered_json> planted_truth(const SynthOptions& options);

/// Told after each chunk; false stops the writing.
using SynthProgress = std::function<bool(int64_t bytes_done, int64_t bytes_total)>;

/// Writes the file, over one that is there; it appears under its name when it is complete. Its bytes depend
/// on the options alone, not on threads or ISA. Fails with kInvalidArgument for options that make no sense,
/// with kLimit where the disk has not enough room, with kIo, and with kCancelled, leaving nothing, where
/// `progress` says so. `progress` may be empty; it is called on this thread.
Status write_synthetic_model(const SynthOptions& options, const std::string& path, Runtime& runtime,
                             const SynthProgress& progress);

}  // namespace soli
