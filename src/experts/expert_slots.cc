#include "experts/expert_slots.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace soli {
namespace {

int64_t charged_bytes_of(std::span<const ExpertForm> forms, std::span<const int64_t> capacities) {
  int64_t n = 0;
  for (size_t f = 0; f < forms.size(); ++f)
    n += Slab::charged_bytes(forms[f].n_experts * forms[f].bytes, capacities[f] * forms[f].bytes);
  return n;
}

/// The same share of every form's experts, at least one.
std::vector<int64_t> capacities_within(std::span<const ExpertForm> forms, int64_t bytes) {
  const auto of_share = [&](double share) {
    std::vector<int64_t> capacities;
    for (const ExpertForm& form : forms) {
      const auto n = static_cast<int64_t>(share * static_cast<double>(form.n_experts));
      capacities.push_back(std::clamp<int64_t>(n, 1, form.n_experts));
    }
    return capacities;
  };
  if (charged_bytes_of(forms, of_share(1)) <= bytes) return of_share(1);
  double fits = 0;
  double too_large = 1;
  for (int i = 0; i < 40; ++i) {  // to less than one of 2^31 experts
    const double middle = (fits + too_large) / 2;
    (charged_bytes_of(forms, of_share(middle)) <= bytes ? fits : too_large) = middle;
  }
  return of_share(fits);
}

}  // namespace

std::vector<int64_t> ExpertSlots::capacities(const ExpertSource& source, int64_t bytes) {
  const std::span<const ExpertForm> forms = source.forms();
  const auto own = forms.first(source.first_twin_form());
  const auto twins = forms.subspan(source.first_twin_form());
  if (twins.empty()) return capacities_within(own, bytes);
  const int64_t least_own = charged_bytes_of(own, std::vector<int64_t>(own.size(), 1));
  std::vector<int64_t> for_twins = capacities_within(twins, std::min(bytes / 2, bytes - least_own));
  std::vector<int64_t> capacities = capacities_within(own, bytes - charged_bytes_of(twins, for_twins));
  capacities.insert(capacities.end(), for_twins.begin(), for_twins.end());
  return capacities;
}

int64_t ExpertSlots::charged_bytes(const ExpertSource& source, std::span<const int64_t> capacities) {
  return charged_bytes_of(source.forms(), capacities);
}

int64_t ExpertSlots::least_bytes(const ExpertSource& source) {
  return charged_bytes(source, std::vector<int64_t>(source.forms().size(), 1));
}

Result<ExpertSlots> ExpertSlots::create(const ExpertSource& source, Budget& budget,
                                        std::span<const int64_t> capacities) {
  SOLI_CHECK(capacities.size() == source.forms().size());
  ExpertSlots slots;
  slots.slot_of_.assign(static_cast<size_t>(source.size_with_twins()), -1);
  slots.slots_.resize(static_cast<size_t>(source.size_with_twins()));
  int32_t first = 0;
  for (size_t f = 0; f < capacities.size(); ++f) {
    const ExpertForm& form = source.forms()[f];
    Form& made = slots.forms_.emplace_back();
    SOLI_ASSIGN_OR_RETURN(made.slab, Slab::reserve(budget, "expert slots", form.n_experts * form.bytes));
    made.slot_bytes = form.bytes;
    made.first = first;
    first += static_cast<int32_t>(form.n_experts);
    slots.form_of_.resize(static_cast<size_t>(first), static_cast<uint16_t>(f));
    SOLI_RETURN_IF_ERROR(slots.resize(f, capacities[f]));
  }
  return slots;
}

ExpertSlots::Form& ExpertSlots::form_of_slot(int32_t slot) {
  return forms_[form_of_[static_cast<size_t>(slot)]];
}

std::byte* ExpertSlots::memory(int32_t slot) {
  Form& form = form_of_slot(slot);
  return form.slab.data() + (slot - form.first) * form.slot_bytes;
}

int32_t ExpertSlots::find_empty(size_t form) const {
  return forms_[form].empty.empty() ? -1 : forms_[form].empty.back();
}

void ExpertSlots::begin_load(int32_t slot, ExpertNumber expert) {
  Slot& taken = slots_[static_cast<size_t>(slot)];
  std::vector<int32_t>& empty = form_of_slot(slot).empty;
  SOLI_CHECK(taken.state == State::kEmpty && find(expert) < 0);
  SOLI_CHECK(!empty.empty() && empty.back() == slot);
  empty.pop_back();
  taken = {.expert = expert, .state = State::kLoading};
  slot_of_[static_cast<size_t>(expert)] = slot;
}

void ExpertSlots::end_load(int32_t slot) {
  Slot& loaded = slots_[static_cast<size_t>(slot)];
  SOLI_CHECK(loaded.state == State::kLoading);
  loaded.state = State::kReady;
  ++n_ready_;
  update(slot);
}

void ExpertSlots::clear(int32_t slot) {
  Slot& cleared = slots_[static_cast<size_t>(slot)];
  SOLI_CHECK(cleared.state != State::kEmpty && cleared.n_holders == 0, "slot {} is held", slot);
  if (cleared.state == State::kReady) --n_ready_;
  slot_of_[static_cast<size_t>(cleared.expert)] = -1;
  cleared = {};
  form_of_slot(slot).empty.push_back(slot);
  update(slot);
}

void ExpertSlots::hold(int32_t slot) {
  ++slots_[static_cast<size_t>(slot)].n_holders;
  update(slot);
}

void ExpertSlots::release(int32_t slot) {
  Slot& held = slots_[static_cast<size_t>(slot)];
  SOLI_CHECK(held.n_holders > 0, "slot {} is not held", slot);
  --held.n_holders;
  update(slot);
}

void ExpertSlots::update(int32_t slot) {
  const Slot& now = slots_[static_cast<size_t>(slot)];
  Form& form = form_of_slot(slot);
  const bool may_leave = now.state == State::kReady && now.n_holders == 0;
  form.evictable[static_cast<size_t>(slot - form.first)] = may_leave ? now.expert : -1;
}

int64_t ExpertSlots::total_capacity() const {
  return std::accumulate(forms_.begin(), forms_.end(), int64_t{0}, [](int64_t sum, const Form& form) {
    return sum + static_cast<int64_t>(form.evictable.size());
  });
}

Status ExpertSlots::resize(size_t form_number, int64_t capacity) {
  Form& form = forms_[form_number];
  const int64_t before = this->capacity(form_number);
  for (int64_t i = capacity; i < before; ++i) {
    SOLI_CHECK(slots_[static_cast<size_t>(form.first + i)].state == State::kEmpty, "slot {} is in use", i);
  }
  SOLI_RETURN_IF_ERROR(form.slab.resize(capacity * form.slot_bytes));
  form.evictable.resize(static_cast<size_t>(capacity), -1);
  std::erase_if(form.empty, [&](int32_t slot) { return slot - form.first >= capacity; });
  // Those with low numbers are taken first, and the old ones before the new.
  std::vector<int32_t> empty;
  for (int64_t i = capacity; i-- > before;) empty.push_back(form.first + static_cast<int32_t>(i));
  form.empty.insert(form.empty.begin(), empty.begin(), empty.end());
  return {};
}

}  // namespace soli
