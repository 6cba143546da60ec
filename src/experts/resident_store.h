#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/slab.h"
#include "experts/store.h"
#include "model/model_file.h"
#include "model/weight_loader.h"
#include "ops/runtime.h"

namespace soli {

/// All experts in memory: one wave per layer. Also serves dense models, of whose experts there are none.
class ResidentExpertStore final : public ExpertStore {
 public:
  /// Reads all experts of the file, charged as "experts". Fails with kUnsupported, kLimit or kIo.
  static Result<std::unique_ptr<ResidentExpertStore>> load(const ModelFile& file, Runtime& runtime,
                                                           const LoadProgress& progress);

  Status stream(int64_t layer, std::span<const int32_t> ids, UseWave use) override;
  int64_t reads(int64_t layer, int64_t expert) const override;

 private:
  explicit ResidentExpertStore(const ModelSpec& spec);
  Status load_biases(const ModelFile& file, Runtime& runtime, int64_t layer);
  size_t index(int64_t layer, int64_t expert) const {
    return static_cast<size_t>(layer * n_experts_ + expert);
  }

  const int64_t n_experts_;
  Slab slab_;
  std::vector<std::vector<float>> biases_;         // of all experts of a layer's matrix, [expert][rows]
  std::vector<ExpertWeights> experts_;             // [layer][expert]
  std::unique_ptr<std::atomic<int64_t>[]> reads_;  // [layer][expert]
  std::vector<ExpertLease> wave_;                  // reused from call to call
};

}  // namespace soli
