#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/slab.h"
#include "experts/cache_policy.h"
#include "experts/expert_source.h"

namespace soli {

/// The memory in which some of a model's experts are: slots, of which each form of experts has its own. Knows
/// which expert lies where and which of them may leave; who leaves and what is read is the store's affair.
/// Engine's thread only.
class ExpertSlots {
 public:
  /// Slots that `bytes` are enough for, by form: the same share of every form's experts, at least one slot
  /// each. Twins, where there are some, get half of the memory, or what all of them need.
  static std::vector<int64_t> capacities(const ExpertSource& source, int64_t bytes);
  /// What create() charges for so many slots.
  static int64_t charged_bytes(const ExpertSource& source, std::span<const int64_t> capacities);
  /// The least that create() needs: a slot for each form.
  static int64_t least_bytes(const ExpertSource& source);

  /// Charged as "expert slots". Memory becomes resident as slots are first used. Fails with kLimit.
  static Result<ExpertSlots> create(const ExpertSource& source, Budget& budget,
                                    std::span<const int64_t> capacities);

  enum class State { kEmpty, kLoading, kReady };

  /// The slot of an expert, -1 where it has none.
  int32_t find(ExpertNumber expert) const { return slot_of_[static_cast<size_t>(expert)]; }
  State state(int32_t slot) const { return slots_[static_cast<size_t>(slot)].state; }
  ExpertNumber expert_in(int32_t slot) const { return slots_[static_cast<size_t>(slot)].expert; }
  std::byte* memory(int32_t slot);

  /// An empty slot for experts of a form; -1: none.
  int32_t find_empty(size_t form) const;
  /// By slots of the form: the expert that may leave it, or -1.
  std::span<const ExpertNumber> evictable(size_t form) const { return forms_[form].evictable; }
  /// The slot that entry `i` of evictable(form) speaks of.
  int32_t slot_at(size_t form, size_t i) const { return forms_[form].first + static_cast<int32_t>(i); }

  /// An empty slot begins to take an expert in.
  void begin_load(int32_t slot, ExpertNumber expert);
  /// It is there.
  void end_load(int32_t slot);
  /// Empties a slot, whatever it holds.
  void clear(int32_t slot);
  /// While it is held, an expert may not leave. A slot counts its holders.
  void hold(int32_t slot);
  void release(int32_t slot);

  int64_t capacity(size_t form) const { return static_cast<int64_t>(forms_[form].evictable.size()); }
  int64_t total_capacity() const;
  /// Experts in memory.
  int64_t n_ready() const { return n_ready_; }
  /// Makes slots of a form, or takes away the last ones, which are empty. Fails with kLimit (budget).
  Status resize(size_t form, int64_t capacity);

 private:
  struct Slot {
    ExpertNumber expert = -1;
    State state = State::kEmpty;
    int32_t n_holders = 0;
  };
  struct Form {
    Slab slab;
    int64_t slot_bytes = 0;
    int32_t first = 0;                    // number of its first slot
    std::vector<ExpertNumber> evictable;  // [capacity]
    std::vector<int32_t> empty;           // slots, the last one is taken next
  };
  void update(int32_t slot);
  Form& form_of_slot(int32_t slot);

  std::vector<Form> forms_;
  std::vector<Slot> slots_;        // [all experts]: those beyond a form's capacity are not used
  std::vector<int32_t> slot_of_;   // [expert]
  std::vector<uint16_t> form_of_;  // [slot]
  int64_t n_ready_ = 0;
};

}  // namespace soli
