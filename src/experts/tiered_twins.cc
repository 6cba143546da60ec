// What a TieredExpertStore does with twins: experts of lower precision that stand in for those not in memory.
#include <algorithm>
#include <cmath>

#include "experts/tiered_store.h"
#include "ops/matmul.h"

namespace soli {
namespace {

/// Cosine of the angle between the first rows of two matrices.
double likeness(const PackedMatrix& a, const PackedMatrix& b) {
  constexpr int64_t kRows = 8;
  std::vector<float> row_a(static_cast<size_t>(a.cols));
  std::vector<float> row_b(static_cast<size_t>(b.cols));
  double product = 0;
  double square_a = 0;
  double square_b = 0;
  for (int64_t row = 0; row < std::min(kRows, a.rows); ++row) {
    dequantize_row(a, row, row_a);
    dequantize_row(b, row, row_b);
    for (size_t i = 0; i < row_a.size(); ++i) {
      const auto x = static_cast<double>(row_a[i]);
      const auto y = static_cast<double>(row_b[i]);
      product += x * y;
      square_a += x * x;
      square_b += y * y;
    }
  }
  return product / std::sqrt(std::max(square_a * square_b, 1e-300));
}

}  // namespace

/// Reads the first expert and its twin: another model of the same sizes would answer nonsense, quietly.
Status TieredExpertStore::check_twins() {
  constexpr double kLeastLikeness = 0.5;  // 1.5 bits leave 0.85 and more; strangers have about 0
  const ExpertNumber numbers[] = {0, source_.twin_of(0)};
  PackedMatrix gates[2];
  for (size_t i = 0; i < 2; ++i) {
    const int32_t slot = slots_.find_empty(source_.form_of(numbers[i]));
    slots_.begin_load(slot, numbers[i]);
    loader_->load(numbers[i], slots_.memory(slot), ExpertLoader::Urgency::kDemanded);
    while (slots_.find(numbers[i]) == slot && slots_.state(slot) == ExpertSlots::State::kLoading) {
      loader_->submit();
      SOLI_RETURN_IF_ERROR(collect(true));
    }
    gates[i] = source_.weights_of(numbers[i], slots_.memory(slot)).gate;
  }
  counted_ = {};  // no turn's
  const double found = likeness(gates[0], gates[1]);
  if (found >= kLeastLikeness) return {};
  return fail(
      ErrorKind::kInvalidArgument,
      "the twins are not this model's: their first expert's weights and its own have a cosine of {:.2f}, "
      "and at least {} is expected of the same weights in another precision",
      found, kLeastLikeness);
}

/// The slot that a turn takes an expert from, one that has begun to load included; -1: there is none.
int32_t TieredExpertStore::find_for_turn(ExpertNumber expert) const {
  const int32_t own = slots_.find(expert);
  if (!use_twins_ || (own >= 0 && slots_.state(own) == ExpertSlots::State::kReady)) return own;
  const int32_t twin = slots_.find(source_.twin_of(expert));
  return twin >= 0 ? twin : own;
}

/// What is read of an expert that a turn misses: itself, or its twin.
ExpertNumber TieredExpertStore::number_to_read(ExpertNumber expert) const {
  return use_twins_ ? source_.twin_of(expert) : expert;
}

void TieredExpertStore::find_resident(int64_t layer, std::span<uint8_t> resident) const {
  const int64_t moe_layer = source_.moe_layer(layer);
  for (size_t e = 0; e < resident.size(); ++e)
    resident[e] = find_for_turn(number_of(moe_layer, static_cast<int64_t>(e))) >= 0 ? 1 : 0;
}

/// Among the slots of a form, by number of the slot. A policy knows nothing of twins: it is asked for the
/// expert that is worth least. A twin whose expert is there goes first.
size_t TieredExpertStore::choose_victim(size_t form) {
  const std::span<const ExpertNumber> residents = slots_.evictable(form);
  if (form < source_.first_twin_form()) return policy_->choose_victim(residents);
  residents_.assign(residents.begin(), residents.end());
  for (size_t i = 0; i < residents_.size(); ++i) {
    if (residents_[i] < 0) continue;
    residents_[i] = source_.expert_of(residents_[i]);
    const int32_t own = slots_.find(residents_[i]);
    if (own >= 0 && slots_.state(own) == ExpertSlots::State::kReady) return i;
  }
  return policy_->choose_victim(residents_);
}

/// With nothing else to read: the expert that was called most of those that the turn computed by twins comes
/// itself, if another one is called so much less that its place is worth a read.
void TieredExpertStore::request_promotion() {
  if (!use_twins_ || twin_used_.empty() || !missing_.empty() || loader_->n_loads() > 0) return;
  const auto heat = [&](ExpertNumber expert) {
    return recent_calls_.at_number(static_cast<size_t>(moe_layer_of(expert)), expert);
  };
  const auto hottest = std::max_element(twin_used_.begin(), twin_used_.end(),
                                        [&](ExpertNumber a, ExpertNumber b) { return heat(a) < heat(b); });
  const ExpertNumber expert = *hottest;
  twin_used_.erase(hottest);
  const size_t form = source_.form_of(expert);
  if (slots_.find(expert) >= 0) return;
  if (slots_.find_empty(form) < 0) {
    const std::span<const ExpertNumber> residents = slots_.evictable(form);
    if (std::all_of(residents.begin(), residents.end(), [](ExpertNumber e) { return e < 0; })) return;
    const size_t victim = choose_victim(form);
    // Calls that come by chance differ by less.
    if (heat(expert) < 2 * heat(residents[victim]) + 1) return;
    slots_.clear(slots_.slot_at(form, victim));
  }
  const int32_t slot = slots_.find_empty(form);
  slots_.begin_load(slot, expert);
  loader_->load(expert, slots_.memory(slot), ExpertLoader::Urgency::kExpected);
}

}  // namespace soli
