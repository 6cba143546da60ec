#include "experts/cache_simulator.h"

#include "base/check.h"

namespace soli {

CacheSimulator::CacheSimulator(const CacheShape& shape, CachePolicy& policy)
    : shape_(shape),
      policy_(policy),
      layers_(static_cast<size_t>(shape.n_layers)),
      slots_(static_cast<size_t>(shape.n_slots), -1),
      evictable_(slots_),
      slot_of_(static_cast<size_t>(shape.n_layers * shape.n_experts), -1) {
  SOLI_CHECK(shape.n_slots > 0, "{} slots", shape.n_slots);
}

int64_t CacheSimulator::visit(const LayerVisit& visit) {
  policy_.on_visit(visit);
  missing_.clear();
  for (const int32_t expert : visit.experts) {
    const auto number = static_cast<ExpertNumber>(visit.layer * shape_.n_experts + expert);
    const int32_t slot = slot_of_[static_cast<size_t>(number)];
    slot < 0 ? missing_.push_back(number) : pin(static_cast<size_t>(slot));
  }
  const auto hits = static_cast<int64_t>(visit.experts.size() - missing_.size());
  CacheCounts& counts = layers_[static_cast<size_t>(visit.layer)];
  counts.hits += hits;
  counts.requests += static_cast<int64_t>(visit.experts.size());
  for (const ExpertNumber number : missing_) {
    const size_t slot = take_slot();
    slots_[slot] = number;
    slot_of_[static_cast<size_t>(number)] = static_cast<int32_t>(slot);
    pin(slot);
  }
  end_wave();
  return hits;
}

size_t CacheSimulator::take_slot() {
  if (n_filled_ < slots_.size()) return n_filled_++;
  if (pinned_.size() == slots_.size()) end_wave();
  const size_t slot = policy_.choose_victim(evictable_);
  SOLI_CHECK(slot < slots_.size() && evictable_[slot] >= 0, "policy {} evicts slot {}", policy_.name(), slot);
  slot_of_[static_cast<size_t>(slots_[slot])] = -1;
  return slot;
}

void CacheSimulator::pin(size_t slot) {
  evictable_[slot] = -1;
  pinned_.push_back(slot);
}

void CacheSimulator::end_wave() {
  for (const size_t slot : pinned_) evictable_[slot] = slots_[slot];
  pinned_.clear();
}

CacheCounts CacheSimulator::total() const {
  CacheCounts total;
  for (const CacheCounts& layer : layers_) {
    total.hits += layer.hits;
    total.requests += layer.requests;
  }
  return total;
}

}  // namespace soli
