#include "experts/tiered_store.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/units.h"

namespace soli {
namespace {

constexpr double kRecentTokens = 256;  // half-life of what decides between an expert and its twin

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

Result<std::unique_ptr<TieredExpertStore>> TieredExpertStore::create(const ModelFile& file, Runtime& runtime,
                                                                     const Options& options) {
  const auto make = [&]() -> Result<std::unique_ptr<TieredExpertStore>> {
    SOLI_ASSIGN_OR_RETURN(ExpertSource source, ExpertSource::create(file, runtime.kernels(), options.twins));
    SOLI_ASSIGN_OR_RETURN(ExpertBiases biases, ExpertBiases::load(file, runtime));
    SOLI_ASSIGN_OR_RETURN(
        ExpertSlots slots,
        ExpertSlots::create(source, runtime.budget(), ExpertSlots::capacities(source, options.slot_bytes)));
    std::unique_ptr<TieredExpertStore> store(new TieredExpertStore(file, runtime, options, std::move(source),
                                                                   std::move(slots), std::move(biases)));
    // Of the store's own source, at whose files it reads.
    SOLI_ASSIGN_OR_RETURN(store->loader_,
                          ExpertLoader::create(store->source_, runtime.budget(), options.loader));
    if (options.twins != nullptr) SOLI_RETURN_IF_ERROR(store->check_twins());
    return store;
  };
  auto store = make();
  if (!store) return in_context(file.gguf().path(), std::move(store).error());
  return store;
}

TieredExpertStore::TieredExpertStore(const ModelFile& file, Runtime& runtime, const Options& options,
                                     ExpertSource source, ExpertSlots slots, ExpertBiases biases)
    : runtime_(runtime),
      source_(std::move(source)),
      slots_(std::move(slots)),
      biases_(std::move(biases)),
      policy_(make_cache_policy(options.policy, shape())),
      gate_(options.prefetch, static_cast<double>(file.spec().router.experts_per_token) /
                                  static_cast<double>(source_.n_experts())),
      wanted_slot_bytes_(options.slot_bytes),
      slot_bytes_(options.slot_bytes),
      experts_per_token_(file.spec().router.experts_per_token),
      use_twins_(source_.has_twins()),
      recent_calls_(source_.n_layers(), source_.n_experts(), kRecentTokens),
      reads_(std::make_unique<std::atomic<int64_t>[]>(static_cast<size_t>(source_.size()))),
      counters_(static_cast<size_t>(file.spec().n_layers)) {}

int64_t TieredExpertStore::reads(int64_t layer, int64_t expert) const {
  const int64_t moe_layer = source_.moe_layer(layer);
  if (moe_layer < 0) return 0;
  return reads_[static_cast<size_t>(number_of(moe_layer, expert))].load(std::memory_order_relaxed);
}

CacheCountersByLayer TieredExpertStore::counters() const {
  const std::lock_guard lock(counters_mutex_);
  return counters_;
}

Status TieredExpertStore::stream(const Demand& demand, UseWave use) {
  apply_slot_bytes();
  begin_visit(demand);
  Status status;
  while (n_left_ > 0 && status) {
    request_missing();
    request_expected();
    request_promotion();
    loader_->submit();
    const bool computed = use_ready(use);
    SOLI_CHECK(computed || loader_->in_flight() > 0, "{} experts wait for nothing", n_left_);
    status = collect(!computed);
  }
  end_visit();
  return status;
}

void TieredExpertStore::begin_visit(const Demand& demand) {
  layer_ = demand.layer;
  const int64_t moe_layer = source_.moe_layer(demand.layer);
  SOLI_CHECK(moe_layer >= 0, "layer {} has no experts", demand.layer);
  if (moe_layer <= moe_layer_) ++n_steps_;
  moe_layer_ = moe_layer;
  begin_ = Clock::now();
  if (last_arrival_ != Clock::time_point()) gate_.on_idle(seconds_between(last_arrival_, begin_));
  last_arrival_ = begin_;
  experts_ = demand.grouped.experts;
  calls_.clear();
  for (size_t g = 0; g < experts_.size(); ++g)
    calls_.push_back(demand.grouped.begin[g + 1] - demand.grouped.begin[g]);
  const LayerVisit visit = {
      .layer = moe_layer, .n_tokens = demand.n_tokens, .experts = experts_, .calls = calls_};
  policy_->on_visit(visit);
  record(visit);
  resolve_expected();
  missing_.clear();
  ready_.clear();
  twin_used_.clear();
  held_.assign(experts_.size(), -1);
  was_coming_.assign(experts_.size(), 0);
  n_left_ = static_cast<int64_t>(experts_.size());
  n_read_ = 0;
  for (size_t g = 0; g < experts_.size(); ++g) want(static_cast<int64_t>(g));
}

void TieredExpertStore::record(const LayerVisit& visit) {
  if (trace_ != nullptr) trace_->record(visit);
  for (Heat* const heat : {heat_, source_.has_twins() ? &recent_calls_ : nullptr}) {
    if (heat == nullptr) continue;
    heat->pass(visit.layer, visit.n_tokens);
    for (size_t i = 0; i < visit.experts.size(); ++i)
      heat->add(visit.layer, visit.experts[i], visit.calls[i]);
  }
}

/// One expert that the visit calls: it is there, on its way, or missing.
void TieredExpertStore::want(int64_t group) {
  const ExpertNumber expert = number_of(moe_layer_, experts_[static_cast<size_t>(group)]);
  reads_[static_cast<size_t>(expert)].fetch_add(1, std::memory_order_relaxed);
  const int32_t slot = find_for_turn(expert);
  const bool by_twin = source_.is_twin(slot < 0 ? number_to_read(expert) : slots_.expert_in(slot));
  if (by_twin) {
    ++counted_.twin_uses;
    twin_used_.push_back(expert);
  }
  if (slot < 0) {
    ++counted_.demand_misses;
    ++n_read_;
    missing_.push_back(group);
    return;
  }
  slots_.hold(slot);
  held_[static_cast<size_t>(group)] = slot;
  if (slots_.state(slot) == ExpertSlots::State::kReady) {
    ++counted_.hits;
    ready_.push_back(group);
  } else {
    ++counted_.late_prefetches;
    ++n_read_;
    was_coming_[static_cast<size_t>(group)] = 1;
    loader_->demand(slots_.expert_in(slot));
  }
}

/// A slot that an expert can be read into; -1: all are in use for now.
int32_t TieredExpertStore::acquire_slot(ExpertNumber expert) {
  const size_t form = source_.form_of(expert);
  const int32_t empty = slots_.find_empty(form);
  if (empty >= 0) return empty;
  const std::span<const ExpertNumber> residents = slots_.evictable(form);
  if (std::all_of(residents.begin(), residents.end(), [](ExpertNumber e) { return e < 0; })) return -1;
  const size_t victim = choose_victim(form);
  SOLI_CHECK(victim < residents.size() && residents[victim] >= 0, "{} named a victim that stays",
             policy_->name());
  const int32_t slot = slots_.slot_at(form, victim);
  slots_.clear(slot);
  return slots_.find_empty(form);
}

void TieredExpertStore::request_missing() {
  const auto request = [&](int64_t group) {
    const ExpertNumber expert = number_to_read(number_of(moe_layer_, experts_[static_cast<size_t>(group)]));
    int32_t slot = acquire_slot(expert);
    if (slot < 0 && !expected_.empty()) {
      // What is demanded goes before what is expected.
      for (const Expected& expected : expected_) drop_expected(expected);
      expected_.clear();
      slot = acquire_slot(expert);
    }
    if (slot < 0) return false;
    slots_.begin_load(slot, expert);
    slots_.hold(slot);
    held_[static_cast<size_t>(group)] = slot;
    loader_->load(expert, slots_.memory(slot), ExpertLoader::Urgency::kDemanded);
    return true;
  };
  std::erase_if(missing_, request);
}

/// Computes with what is there, and lets it go.
bool TieredExpertStore::use_ready(UseWave use) {
  if (ready_.empty()) return false;
  in_wave_.swap(ready_);
  ready_.clear();
  wave_.clear();
  for (const int64_t group : in_wave_) {
    const int32_t slot = held_[static_cast<size_t>(group)];
    const ExpertNumber expert = slots_.expert_in(slot);
    ExpertLease& lease = wave_.emplace_back();
    lease.group = group;
    lease.weights = source_.weights_of(expert, slots_.memory(slot));
    biases_.add_to(layer_, experts_[static_cast<size_t>(group)], lease.weights);
  }
  use(wave_);
  for (const int64_t group : in_wave_) {
    slots_.release(held_[static_cast<size_t>(group)]);
    held_[static_cast<size_t>(group)] = -1;
  }
  n_left_ -= static_cast<int64_t>(in_wave_.size());
  return true;
}

/// Takes over what has arrived; with `wait`, waits for some of it.
Status TieredExpertStore::collect(bool wait) {
  const Clock::time_point begin = Clock::now();
  loader_->collect(runtime_.team(), wait, loaded_);
  if (wait) counted_.wait_ns += std::chrono::nanoseconds(Clock::now() - begin).count();
  Status status;
  if (!loaded_.empty()) status = source_.check_unchanged();
  for (ExpertLoader::Loaded& loaded : loaded_) {
    if (!status && loaded.status) loaded.status = status;
    Status taken = take_loaded(loaded);
    if (status) status = std::move(taken);
  }
  loaded_.clear();
  return status;
}

/// The error is one that concerns the visit: what nobody waits for may fail.
Status TieredExpertStore::take_loaded(ExpertLoader::Loaded& loaded) {
  const int32_t slot = slots_.find(loaded.expert);
  const int64_t group = group_of(loaded.expert);
  const bool wanted = group >= 0 && held_[static_cast<size_t>(group)] == slot;
  const auto expected = std::find_if(expected_.begin(), expected_.end(),
                                     [&](const Expected& e) { return e.expert == loaded.expert; });
  if (wanted || loaded.urgency == ExpertLoader::Urgency::kDemanded) {
    counted_.demanded_bytes += loaded.bytes;
  } else if (use_twins_ && !source_.is_twin(loaded.expert)) {
    counted_.promoted_bytes += loaded.bytes;
  } else if (expected != expected_.end()) {
    expected->bytes = loaded.bytes;  // its turn will tell what they were
  } else {
    counted_.wasted_bytes += loaded.bytes;
  }
  if (loaded.status) {
    slots_.end_load(slot);
    if (!wanted) return {};
    ready_.push_back(group);
    last_arrival_ = std::max(last_arrival_, loaded.arrived);
    return {};
  }
  if (wanted) {
    slots_.release(slot);
    held_[static_cast<size_t>(group)] = -1;
  }
  if (expected != expected_.end()) {
    slots_.release(slot);
    expected_.erase(expected);
  }
  slots_.clear(slot);
  if (wanted && std::exchange(was_coming_[static_cast<size_t>(group)], 0) != 0) {
    missing_.push_back(group);  // what went wrong before anybody called it need not go wrong again
    return {};
  }
  if (loaded.status.error().kind == ErrorKind::kCancelled || (!wanted && in_visit())) return {};
  return in_context(
      fmt::format("layer {}, expert {}", source_.layer_of(loaded.expert), source_.id_of(loaded.expert)),
      std::move(loaded.status).error());
}

/// The group of the visit that calls an expert, or that of the expert whose twin it is; -1: none does.
int64_t TieredExpertStore::group_of(ExpertNumber number) const {
  if (moe_layer_of(number) != moe_layer_) return -1;
  const auto id = static_cast<int32_t>(source_.id_of(number));
  const auto found = std::lower_bound(experts_.begin(), experts_.end(), id);
  return found == experts_.end() || *found != id ? -1 : found - experts_.begin();
}

void TieredExpertStore::end_visit() {
  // Where it failed, some are still held.
  for (const int32_t slot : held_) {
    if (slot >= 0) slots_.release(slot);
  }
  held_.clear();
  experts_ = {};
  if (n_read_ > 0) gate_.on_read(seconds_between(begin_, last_arrival_) / static_cast<double>(n_read_));
  const std::lock_guard lock(counters_mutex_);
  counters_[static_cast<size_t>(layer_)] += counted_;
  counted_ = {};
}

Status TieredExpertStore::set_slot_bytes(int64_t bytes) {
  const int64_t least = ExpertSlots::least_bytes(source_);
  if (bytes < least) {
    return fail(ErrorKind::kInvalidArgument, "{} for expert slots is too little: at least {} are needed",
                format_bytes(bytes), format_bytes(least));
  }
  wanted_slot_bytes_.store(bytes, std::memory_order_relaxed);
  return {};
}

CacheShape TieredExpertStore::shape() const {
  return {
      .n_layers = source_.n_layers(), .n_experts = source_.n_experts(), .n_slots = slots_.total_capacity()};
}

Status TieredExpertStore::restart(int64_t slot_bytes, CachePolicyKind policy) {
  SOLI_RETURN_IF_ERROR(set_slot_bytes(slot_bytes));
  SOLI_RETURN_IF_ERROR(resize_slots(ExpertSlots::least_bytes(source_)));
  for (size_t form = 0; form < source_.forms().size(); ++form) {
    const int32_t slot = slots_.slot_at(form, 0);  // the only one that is left
    if (slots_.state(slot) != ExpertSlots::State::kEmpty) slots_.clear(slot);
  }
  SOLI_RETURN_IF_ERROR(resize_slots(slot_bytes));
  slot_bytes_ = slot_bytes;
  policy_ = make_cache_policy(policy, shape());
  return {};
}

/// What has been asked for since the last turn.
void TieredExpertStore::apply_slot_bytes() {
  const int64_t wanted = wanted_slot_bytes_.load(std::memory_order_relaxed);
  if (wanted == slot_bytes_) return;
  if (Status resized = resize_slots(wanted); !resized)
    spdlog::warn("the memory for experts stays as it is: {}", resized.error().message);
  slot_bytes_ = wanted;
}

Status TieredExpertStore::resize_slots(int64_t slot_bytes) {
  for (const Expected& expected : expected_) drop_expected(expected);
  expected_.clear();
  finish_loads();
  const std::vector<int64_t> capacities = ExpertSlots::capacities(source_, slot_bytes);
  for (size_t form = 0; form < capacities.size(); ++form) {
    for (int64_t i = capacities[form]; i < slots_.capacity(form); ++i) {
      const int32_t slot = slots_.slot_at(form, static_cast<size_t>(i));
      if (slots_.state(slot) != ExpertSlots::State::kEmpty) slots_.clear(slot);
    }
    SOLI_RETURN_IF_ERROR(slots_.resize(form, capacities[form]));
  }
  return {};
}

/// Waits for everything that is being read; nobody wants it now.
void TieredExpertStore::finish_loads() {
  while (loader_->n_loads() > 0) {
    loader_->submit();
    if (Status status = collect(true); !status) spdlog::warn("{}", status.error().message);
  }
}

void TieredExpertStore::prime(const Heat& heat) {
  for (int64_t layer = 0; layer < heat.n_layers(); ++layer) {
    std::vector<int32_t> experts;
    std::vector<int32_t> calls;
    int64_t n_calls = 0;
    for (int64_t e = 0; e < heat.n_experts(); ++e) {
      constexpr double kMost = 1 << 20;
      const auto n = static_cast<int32_t>(std::min(kMost, std::ceil(heat.at(layer, e))));
      if (n == 0) continue;
      experts.push_back(static_cast<int32_t>(e));
      calls.push_back(n);
      n_calls += n;
    }
    if (experts.empty()) continue;
    policy_->on_visit({.layer = layer,
                       .n_tokens = std::max<int64_t>(1, n_calls / experts_per_token_),
                       .experts = experts,
                       .calls = calls});
  }
}

Result<int64_t> TieredExpertStore::warm_up(std::span<const ExpertNumber> experts,
                                           const LoadProgress& progress) {
  int64_t n_bytes = 0;
  int64_t n_total = 0;
  std::vector<ExpertNumber> chosen;
  std::vector<int64_t> n_free;
  for (size_t form = 0; form < source_.forms().size(); ++form) n_free.push_back(slots_.capacity(form));
  const auto choose = [&](ExpertNumber number) {
    int64_t& free = n_free[source_.form_of(number)];
    if (slots_.find(number) >= 0 || free == 0) return slots_.find(number) >= 0;
    --free;
    chosen.push_back(number);
    n_total += source_.bytes_of(number);
    return true;
  };
  for (const ExpertNumber expert : experts) {
    if (!choose(expert) && use_twins_) choose(source_.twin_of(expert));
  }
  size_t next = 0;
  while (next < chosen.size() || loader_->n_loads() > 0) {
    while (next < chosen.size() && loader_->n_loads() < 2 * loader_->depth()) {
      const ExpertNumber expert = chosen[next++];
      const int32_t slot = slots_.find_empty(source_.form_of(expert));
      if (slot < 0) continue;
      slots_.begin_load(slot, expert);
      loader_->load(expert, slots_.memory(slot), ExpertLoader::Urgency::kDemanded);
      n_bytes += source_.bytes_of(expert);
    }
    loader_->submit();
    SOLI_RETURN_IF_ERROR(collect(true));
    if (progress) progress(n_bytes, n_total);
  }
  counted_ = {};  // no turn's
  return static_cast<int64_t>(chosen.size());
}

}  // namespace soli
