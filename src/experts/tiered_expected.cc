// What a TieredExpertStore does about the turns to come.
#include <algorithm>

#include "experts/tiered_store.h"

namespace soli {

void TieredExpertStore::expect(int64_t layer, std::span<const int32_t> experts) {
  const int64_t moe_layer = source_.moe_layer(layer);
  for (const int32_t id : experts) {
    const ExpertNumber expert = number_of(moe_layer, id);
    const ExpertNumber number = number_to_read(expert);
    const bool known = std::any_of(expected_.begin(), expected_.end(),
                                   [&](const Expected& e) { return e.expert == number; });
    if (!known && find_for_turn(expert) < 0) expected_.push_back({.expert = number});
  }
}

/// Sees which of those that were expected at this turn it calls; forgets those whose turn has passed.
void TieredExpertStore::resolve_expected() {
  int64_t n_predicted = 0;
  int64_t n_called = 0;
  std::erase_if(expected_, [&](const Expected& expected) {
    const int64_t turn = moe_layer_of(expected.expert);
    if (turn > moe_layer_) return false;
    const bool called = group_of(expected.expert) >= 0;
    n_predicted += turn == moe_layer_ ? 1 : 0;
    n_called += called ? 1 : 0;
    if (expected.requested && called) {
      counted_.demanded_bytes += expected.bytes;
      const int32_t slot = slots_.find(expected.expert);
      if (slots_.state(slot) == ExpertSlots::State::kReady) ++counted_.prefetch_hits;
      slots_.release(slot);
    } else if (expected.requested) {
      drop_expected(expected);
    }
    return true;
  });
  counted_.predicted += n_predicted;
  counted_.predicted_called += n_called;
  gate_.on_outcome(n_predicted, n_called);
}

/// Lets go of an expected expert: it may leave, or need not come.
void TieredExpertStore::drop_expected(const Expected& expected) {
  if (!expected.requested) return;
  ++counted_.wasted_prefetches;
  counted_.wasted_bytes += expected.bytes;
  const int32_t slot = slots_.find(expected.expert);
  slots_.release(slot);
  if (slots_.state(slot) == ExpertSlots::State::kLoading && loader_->cancel(expected.expert))
    slots_.clear(slot);
}

/// Reads ahead once all that is demanded is on its way, and never into more than a part of the slots.
void TieredExpertStore::request_expected() {
  if (!missing_.empty()) return;
  const int64_t n_allowed = std::min(gate_.allowance(), slots_.total_capacity() / 4);
  int64_t n_requested =
      std::count_if(expected_.begin(), expected_.end(), [](const Expected& e) { return e.requested; });
  for (Expected& expected : expected_) {
    if (n_requested >= n_allowed) return;
    if (expected.requested || slots_.find(expected.expert) >= 0) continue;
    const int32_t slot = acquire_slot(expected.expert);
    if (slot < 0) return;
    slots_.begin_load(slot, expected.expert);
    slots_.hold(slot);
    loader_->load(expected.expert, slots_.memory(slot), ExpertLoader::Urgency::kExpected);
    expected.requested = true;
    ++n_requested;
  }
}

}  // namespace soli
