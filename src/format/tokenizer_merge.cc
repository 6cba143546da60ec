#include "format/tokenizer_merge.h"

#include <algorithm>
#include <functional>

namespace soli {

MergeTable::MergeTable(size_t pairs) {
  size_t slots = 16;
  while (slots < 2 * pairs) slots *= 2;
  slots_.resize(slots);
}

void MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  Slot& slot = slots_[position(key(left, right))];
  if (slot.key == kFree) slot = {key(left, right), merge};
}

void WordMerger::link_and_sort() {
  const auto n = static_cast<uint32_t>(symbols_.size());
  first_.clear();
  later_.clear();
  next_first_ = 0;
  for (uint32_t i = 0; i < n; ++i) {
    symbols_[i].previous = i == 0 ? kNone : i - 1;
    symbols_[i].next = i + 1 == n ? kNone : i + 1;
    if (i + 1 == n) break;
    const auto* merge = merges_.find(symbols_[i].id, symbols_[i + 1].id);
    if (merge != nullptr) first_.push_back(entry(merge->rank, i));
  }
  std::sort(first_.begin(), first_.end());
}

void WordMerger::merge() {
  link_and_sort();
  while (next_first_ < first_.size() || !later_.empty()) {
    const uint64_t lowest = pop();
    apply(static_cast<uint32_t>(lowest >> 32), static_cast<uint32_t>(lowest));
  }
}

uint64_t WordMerger::pop() {
  if (later_.empty() || (next_first_ < first_.size() && first_[next_first_] <= later_.front())) {
    return first_[next_first_++];
  }
  std::pop_heap(later_.begin(), later_.end(), std::greater<>());
  const uint64_t lowest = later_.back();
  later_.pop_back();
  return lowest;
}

void WordMerger::apply(uint32_t rank, uint32_t left) {
  Symbol& symbol = symbols_[left];
  if (symbol.id < 0 || symbol.next == kNone) return;
  Symbol& right = symbols_[symbol.next];
  const auto* merge = merges_.find(symbol.id, right.id);
  // Another rank says that this entry's pair is no more. If there is another pair of the same rank in its
  // place, then it has an entry equal to this one.
  if (merge == nullptr || merge->rank != rank) return;
  symbol.id = merge->result;
  right.id = -1;
  symbol.next = right.next;
  if (symbol.next != kNone) {
    symbols_[symbol.next].previous = left;
    push(left);
  }
  if (symbol.previous != kNone) push(symbol.previous);
}

void WordMerger::push(uint32_t left) {
  const auto* merge = merges_.find(symbols_[left].id, symbols_[symbols_[left].next].id);
  if (merge == nullptr) return;
  later_.push_back(entry(merge->rank, left));
  std::push_heap(later_.begin(), later_.end(), std::greater<>());
}

}  // namespace soli
