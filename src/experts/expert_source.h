#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "experts/cache_policy.h"
#include "io/direct_file.h"
#include "model/matrix_pieces.h"
#include "model/model_file.h"
#include "ops/moe_ffn.h"
#include "ops/runtime.h"

namespace soli {

/// Experts that are equal in all but their values: matrices of the same shapes and types.
struct ExpertForm {
  std::array<PackedMatrix, kExpertMatrices> matrices;  // without data
  std::array<int64_t, kExpertMatrices> offsets;        // of the matrices in the expert's memory
  int64_t bytes = 0;                                   // of that memory, whole pages
  int64_t n_experts = 0;                               // of this form
};

/// One read of a part of an expert's bytes, and what becomes of them.
struct ExpertRead {
  const DirectFile* file = nullptr;
  int64_t offset = 0;
  int64_t bytes = 0;
  PackedMatrix matrix;   // that they are strips of
  int64_t n_strips = 0;  // to pack; 0: the bytes are packed already, whole pages to be read into place
  int64_t target = 0;    // offset of the packed strips in the expert's memory
};

/// Where the bytes of every routed expert lie in the file, and how they lie in memory: the three matrices one
/// after the other, packed, in whole pages. Each expert may have a twin: the same expert of lower precision,
/// from another file of the same model, under a number of its own. Borrows the files. Immutable: any thread.
class ExpertSource {
 public:
  /// Reads no weights. `twins` may be null. Fails with kUnsupported for a weight type without kernels,
  /// kInvalidArgument where the second file is one of another model.
  static Result<ExpertSource> create(const ModelFile& file, const kernels::KernelTable& kernels,
                                     const ModelFile* twins = nullptr);

  int64_t n_layers() const { return static_cast<int64_t>(layers_.size()); }  // with experts
  int64_t n_experts() const { return n_experts_; }                           // per layer
  int64_t size() const { return n_layers() * n_experts_; }                   // all, twins not counted
  int64_t size_with_twins() const { return static_cast<int64_t>(form_of_.size()); }

  bool has_twins() const { return model_files_.size() > 1; }
  bool is_twin(ExpertNumber number) const { return number >= size(); }
  /// The number of an expert's twin.
  ExpertNumber twin_of(ExpertNumber expert) const { return expert + static_cast<ExpertNumber>(size()); }
  /// The expert that a number stands for: its own, or the one whose twin it is.
  ExpertNumber expert_of(ExpertNumber number) const {
    return is_twin(number) ? number - static_cast<ExpertNumber>(size()) : number;
  }
  /// The number of a layer among those with experts; -1: it has none.
  int64_t moe_layer(int64_t layer) const { return moe_layer_[static_cast<size_t>(layer)]; }

  // Of experts and of twins.
  /// Its layer, among all layers.
  int64_t layer_of(ExpertNumber number) const {
    return layers_[static_cast<size_t>(expert_of(number) / n_experts_)];
  }
  /// Its number in its layer.
  int64_t id_of(ExpertNumber number) const { return expert_of(number) % n_experts_; }

  /// Those of the experts, then those of the twins: no form has both.
  const std::vector<ExpertForm>& forms() const { return forms_; }
  size_t first_twin_form() const { return first_twin_form_; }
  size_t form_of(ExpertNumber number) const { return form_of_[static_cast<size_t>(number)]; }
  int64_t bytes_of(ExpertNumber number) const { return forms_[form_of(number)].bytes; }
  /// What all experts take in memory, without twins; and what all twins take.
  int64_t total_bytes() const;
  int64_t twin_bytes() const;

  /// The reads that make an expert whole, in the order of the file.
  std::vector<ExpertRead> reads_of(ExpertNumber number) const;
  /// The most memory that one of its reads needs to read into; 0: all are read into place.
  int64_t most_room_bytes() const { return most_room_bytes_; }
  /// Fails with kMalformed, naming the expert, where what was read is not what was packed; a plain file does
  /// not tell. Any thread.
  Status check(ExpertNumber number, const std::byte* memory) const;
  /// The expert's matrices, which lie at `memory`.
  ExpertWeights weights_of(ExpertNumber number, const std::byte* memory) const;

  /// Fails with kMalformed, naming the file, once a file has got another size or was written to since
  /// create(): what is read from then on need not be the model's.
  Status check_unchanged() const;
  const std::vector<DirectFile>& files() const { return files_; }

 private:
  ExpertSource() = default;
  Status add_model(const ModelFile& file, const kernels::KernelTable& kernels);
  Status add_layer(const ModelFile& file, int64_t layer, const kernels::KernelTable& kernels);
  std::vector<ExpertRead> reads_of_extent(size_t first_file, const ExpertExtent& extent) const;
  size_t find_form(const std::array<PackedMatrix, kExpertMatrices>& matrices);
  const ModelFile& model_file_of(ExpertNumber number) const { return *model_files_[is_twin(number) ? 1 : 0]; }

  std::vector<const ModelFile*> model_files_;  // the model's, and that of the twins
  int64_t n_experts_ = 0;
  int64_t most_room_bytes_ = 0;
  std::vector<int64_t> layers_;     // [layer with experts] its number among all layers
  std::vector<int64_t> moe_layer_;  // [layer]
  std::vector<ExpertForm> forms_;
  size_t first_twin_form_ = 0;
  std::vector<uint16_t> form_of_;  // [expert], then [twin]
  std::vector<DirectFile> files_;  // [shard], those of the twins' file last
};

}  // namespace soli
