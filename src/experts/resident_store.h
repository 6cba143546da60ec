#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/slab.h"
#include "experts/expert_biases.h"
#include "experts/store.h"
#include "model/model_file.h"
#include "model/weight_loader.h"
#include "ops/runtime.h"

namespace soli {

/// All experts in memory: one wave per layer. Also serves dense models, of whose experts there are none.
class ResidentExpertStore final : public ExpertStore {
 public:
  /// Reads all experts of the file, charged as "experts". Fails with kUnsupported, kLimit or kIo, and with
  /// kMalformed where an expert of a packed file is damaged.
  static Result<std::unique_ptr<ResidentExpertStore>> load(const ModelFile& file, Runtime& runtime,
                                                           const LoadProgress& progress);

  Status stream(const Demand& demand, UseWave use) override;
  int64_t reads(int64_t layer, int64_t expert) const override;

 private:
  explicit ResidentExpertStore(const ModelSpec& spec);
  Status load_plain(const ModelFile& file, Runtime& runtime, const LoadProgress& progress);
  Status load_packed(const ModelFile& file, Runtime& runtime, const LoadProgress& progress);
  size_t index(int64_t layer, int64_t expert) const {
    return static_cast<size_t>(moe_layer_[static_cast<size_t>(layer)] * n_experts_ + expert);
  }

  const int64_t n_experts_;
  std::vector<int64_t> moe_layer_;  // [layer] its number among those with experts; -1: it has none
  Slab slab_;
  ExpertBiases biases_;
  std::vector<ExpertWeights> experts_;             // [layer with experts][expert]
  std::unique_ptr<std::atomic<int64_t>[]> reads_;  // the same
  std::vector<ExpertLease> wave_;                  // reused from call to call
};

}  // namespace soli
