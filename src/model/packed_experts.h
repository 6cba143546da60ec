#pragma once

// Model files in which every routed expert is one aligned extent, ready to multiply: read at once, and used
// as it lies. docs/packed-models.md describes the format; this is the part that reads its keys and tensors.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/gguf.h"
#include "model/family.h"

namespace soli {

/// Grows with every change of the layout, of any weight type's packed strips too.
inline constexpr uint64_t kPackVersion = 1;
inline constexpr std::string_view kPackLayout = "x16";
/// Of an extent's place in the file and of its size: what a direct read wants.
inline constexpr int64_t kExtentAlignment = 4096;

inline constexpr std::string_view kPackVersionKey = "soli.pack.version";
inline constexpr std::string_view kPackLayoutKey = "soli.pack.layout";
inline constexpr std::string_view kPackStripesKey = "soli.pack.stripes";
inline constexpr std::string_view kPackWidthKey = "soli.pack.expert_width";
inline constexpr std::string_view kPackChecksumsKey = "soli.pack.checksums";
/// Weight types of one matrix, by layer with experts: [matrix].
inline constexpr std::array<std::string_view, kExpertMatrices> kPackTypesKeys = {
    "soli.pack.gate_types", "soli.pack.up_types", "soli.pack.down_types"};

/// "blk.3.ffn_experts.packed", or with several stripes "blk.3.ffn_experts.packed.1".
std::string packed_tensor_name(int64_t layer, int64_t stripe, int64_t n_stripes);
/// Experts of a layer in one stripe; expert e is in stripe e mod n_stripes.
int64_t experts_of_stripe(int64_t n_experts, int64_t stripe, int64_t n_stripes);

/// How the three matrices of an expert lie in an extent: each padded to whole strips of 16 rows.
struct ExtentLayout {
  std::array<int64_t, kExpertMatrices> matrix_offsets{};  // multiples of 64
  int64_t bytes = 0;                                      // a multiple of kExtentAlignment

  /// Of matrices with these types and dims (ggml order). Fails where a type is unknown, rows are no whole
  /// blocks, or the sizes go beyond what a file can hold.
  static Result<ExtentLayout> of(std::span<const GgufTensor> matrices);
};

/// Where an expert lies.
struct ExpertExtent {
  int shard = 0;
  int64_t offset = 0;                                     // in its shard, a multiple of kExtentAlignment
  int64_t bytes = 0;                                      // so is this
  uint64_t checksum = 0;                                  // XXH3, 64 bits, of all bytes
  std::array<int64_t, kExpertMatrices> matrix_offsets{};  // from `offset`, by ExpertMatrix
};

/// XXH3, 64 bits, seed 0. Any thread.
uint64_t checksum_of(std::span<const std::byte> extent);

/// The experts of a packed file. Valid by construction: every extent lies inside its tensor and has the size
/// that the spec and the weight types ask for. Immutable; any thread may read.
class PackedExperts {
 public:
  /// Whether a file's keys say that it is packed.
  static bool is_packed(const GgufMetadata& metadata) { return metadata.has(kPackVersionKey); }
  /// The experts' width, which no tensor's shape tells.
  static Result<int64_t> read_expert_width(const GgufMetadata& metadata);
  /// `spec` is complete. Fails, naming the key or tensor at fault, with kUnsupported for another version or
  /// layout, with kNotFound for a key that is missing, else with kMalformed.
  static Result<PackedExperts> bind(const GgufFile& gguf, const Family& family, const ModelSpec& spec);

  int64_t n_stripes() const { return n_stripes_; }
  /// The tensors that hold the extents.
  const std::vector<const GgufTensor*>& tensors() const { return tensors_; }
  /// The matrices as the plain file has them, [layer with experts][matrix]: name, type and dims of all
  /// experts' together, bytes as they would be there, and no place: shard and offset are -1.
  const std::vector<GgufTensor>& matrices() const { return matrices_; }
  /// Null for a layer without experts.
  const GgufTensor* matrix(int64_t layer, ExpertMatrix which) const;
  const ExpertExtent* extent(int64_t layer, int64_t expert) const;

 private:
  friend class PackedBinder;
  PackedExperts() = default;

  int64_t n_experts_ = 0;
  int64_t n_stripes_ = 1;
  std::vector<int64_t> moe_layer_;  // [layer] its number among those with experts; -1: it has none
  std::vector<const GgufTensor*> tensors_;
  std::vector<GgufTensor> matrices_;
  std::vector<ExpertExtent> extents_;  // [layer with experts][expert]
};

}  // namespace soli
