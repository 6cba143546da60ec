#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "experts/access_trace.h"
#include "experts/cache_counters.h"
#include "experts/cache_policy.h"
#include "experts/expert_biases.h"
#include "experts/expert_loader.h"
#include "experts/expert_slots.h"
#include "experts/expert_source.h"
#include "experts/heat.h"
#include "experts/prefetch_gate.h"
#include "experts/store.h"
#include "model/weight_loader.h"

namespace soli {

/// Some experts in memory, all on disk. A layer's turn computes with the experts that are there while those
/// that are missing arrive, in as many waves as that takes: any number of slots serves any batch, to the same
/// bits. What a turn still needs never leaves. Reads go on while the engine computes, also of experts that
/// are expected at the next turns. One engine's thread streams; counters and set_slot_bytes() from any.
///
/// With twins, which are lossy: an expert that is not in memory is computed by its twin of lower precision,
/// which is there, or is read sooner. Experts that are called often take the places of those that are not,
/// when the disk has nothing else to do.
class TieredExpertStore final : public ExpertStore {
 public:
  struct Options {
    int64_t slot_bytes = 0;            // memory for slots, as ExpertSlots charges it
    const ModelFile* twins = nullptr;  // borrowed: a smaller file of the same model; null: exact
    CachePolicyKind policy = CachePolicyKind::kAuto;
    PrefetchGate::Mode prefetch = PrefetchGate::Mode::kAuto;
    ExpertLoader::Options loader = {};
  };

  /// Reads nothing but biases, and an expert and its twin, which must be alike. `file` and `runtime` are
  /// borrowed. Fails with kLimit, kUnsupported, kIo, or kInvalidArgument (twins of another model).
  static Result<std::unique_ptr<TieredExpertStore>> create(const ModelFile& file, Runtime& runtime,
                                                           const Options& options);

  Status stream(const Demand& demand, UseWave use) override;
  int64_t reads(int64_t layer, int64_t expert) const override;

  /// Fills empty slots with these experts, the first ones first, until no slot of their form is left; those
  /// for which there is no slot come as twins. Returns how many it read. Fails as stream() does.
  Result<int64_t> warm_up(std::span<const ExpertNumber> experts, const LoadProgress& progress);

  /// Tells the policy what was hot in an earlier run, as if that had been its last prompt.
  void prime(const Heat& heat);

  /// Experts that a layer (among all layers) will be asked for at its next turn, the most likely first. What
  /// is not in memory is read ahead, as far as that pays. Engine's thread.
  void expect(int64_t layer, std::span<const int32_t> experts);
  /// Whether to take the trouble to predict in the present step.
  bool wants_predictions() const { return gate_.wants_prediction(n_steps_); }

  /// Memory for slots from the next turn on. Fails with kInvalidArgument below the least. Any thread.
  Status set_slot_bytes(int64_t bytes);

  /// By layer, of all layers. Any thread.
  CacheCountersByLayer counters() const;

  const ExpertSource& source() const { return source_; }

  // Engine's thread.
  /// Marks the layer's (among all layers) experts that are in memory or on their way, twins included:
  /// `resident` is [n_experts], 1 where that is so.
  void find_resident(int64_t layer, std::span<uint8_t> resident) const;
  /// False: exact from the next turn on, as if there were no twins. Between steps.
  void set_use_twins(bool use) { use_twins_ = use && source_.has_twins(); }
  /// Empties all slots, makes as many as `slot_bytes` are enough for, and begins anew under a policy;
  /// counters go on. Fails with kLimit (budget). Between steps.
  Status restart(int64_t slot_bytes, CachePolicyKind policy);
  /// Who keeps a record of the turns to come; borrowed, null: nobody.
  void set_trace(AccessTrace* trace) { trace_ = trace; }
  void set_heat(Heat* heat) { heat_ = heat; }
  /// Time in which the disk had something to do for the store. Measured.
  double disk_seconds() const { return loader_->busy_seconds(); }
  const ExpertSlots& slots() const { return slots_; }
  const CachePolicy& policy() const { return *policy_; }
  const PrefetchGate& gate() const { return gate_; }

 private:
  using Clock = std::chrono::steady_clock;
  /// An expert that is expected at a turn to come.
  struct Expected {
    ExpertNumber expert = -1;
    bool requested = false;  // and its slot held
    int64_t bytes = 0;       // once read
  };

  TieredExpertStore(const ModelFile& file, Runtime& runtime, const Options& options, ExpertSource source,
                    ExpertSlots slots, ExpertBiases biases);

  CacheShape shape() const;
  void apply_slot_bytes();
  Status resize_slots(int64_t slot_bytes);
  void finish_loads();
  void begin_visit(const Demand& demand);
  void record(const LayerVisit& visit);
  void resolve_expected();
  void drop_expected(const Expected& expected);
  void want(int64_t group);
  void request_missing();
  void request_expected();
  int32_t find_for_turn(ExpertNumber expert) const;
  ExpertNumber number_to_read(ExpertNumber expert) const;
  size_t choose_victim(size_t form);
  int32_t acquire_slot(ExpertNumber expert);
  bool use_ready(UseWave use);
  Status collect(bool wait);
  Status take_loaded(ExpertLoader::Loaded& loaded);
  void end_visit();
  Status check_twins();
  void request_promotion();
  bool in_visit() const { return !experts_.empty(); }
  int64_t group_of(ExpertNumber number) const;
  ExpertNumber number_of(int64_t moe_layer, int64_t expert) const {
    return static_cast<ExpertNumber>(moe_layer * source_.n_experts() + expert);
  }
  int64_t moe_layer_of(ExpertNumber number) const { return source_.expert_of(number) / source_.n_experts(); }

  Runtime& runtime_;
  const ExpertSource source_;
  ExpertSlots slots_;
  std::unique_ptr<ExpertLoader> loader_;
  const ExpertBiases biases_;
  std::unique_ptr<CachePolicy> policy_;
  PrefetchGate gate_;
  std::atomic<int64_t> wanted_slot_bytes_;
  int64_t slot_bytes_;
  const int64_t experts_per_token_;
  int64_t n_steps_ = 0;
  int64_t layer_ = 0;       // of the visit, among all layers
  int64_t moe_layer_ = -1;  // the same, among those with experts

  // The visit at work.
  std::span<const int32_t> experts_;  // that it calls, ascending
  std::vector<int32_t> calls_;        // [experts]
  std::vector<int64_t> missing_;      // groups that have no slot yet
  std::vector<int64_t> ready_;        // groups that may be computed
  std::vector<int64_t> in_wave_;
  std::vector<ExpertLease> wave_;
  std::vector<int32_t> held_;        // [group] its slot, held; -1: none
  std::vector<uint8_t> was_coming_;  // [group] 1 where its load began before the visit
  int64_t n_left_ = 0;               // groups that have not been computed
  int64_t n_read_ = 0;               // experts that had to be read
  Clock::time_point begin_;
  Clock::time_point last_arrival_;
  CacheCounters counted_;  // since the last one's end

  bool use_twins_ = false;
  Heat recent_calls_;                    // counted where there are twins: who deserves a place
  std::vector<ExpertNumber> twin_used_;  // experts of the visit that were computed by their twins
  std::vector<ExpertNumber> residents_;  // of a form, without the difference between experts and twins

  AccessTrace* trace_ = nullptr;
  Heat* heat_ = nullptr;
  std::vector<Expected> expected_;
  std::vector<ExpertLoader::Loaded> loaded_;
  std::unique_ptr<std::atomic<int64_t>[]> reads_;  // [expert]
  mutable std::mutex counters_mutex_;
  CacheCountersByLayer counters_;
};

}  // namespace soli
