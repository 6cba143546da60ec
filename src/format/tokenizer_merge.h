#pragma once

// Merging of neighbours in a word, as byte-pair encoding and SentencePiece both do it. Symbols are numbers:
// ids of tokens, and numbers past these for what is no token.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace soli {

/// Pairs of symbols to rank and result: open addressing, at most half full.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;  // the lowest is merged first
    int32_t result;
  };

  MergeTable() : MergeTable(0) {}
  /// For at most this many pairs.
  explicit MergeTable(size_t pairs);

  /// The first rank given to a pair is the one that counts. Symbols are not negative.
  void insert(int32_t left, int32_t right, Merge merge);
  /// Or nullptr.
  const Merge* find(int32_t left, int32_t right) const {
    const Slot& slot = slots_[position(key(left, right))];
    return slot.key == kFree ? nullptr : &slot.merge;
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};  // no pair
  struct Slot {
    uint64_t key = kFree;
    Merge merge{};
  };

  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t position(uint64_t key) const {
    uint64_t hash = key;  // the finaliser of SplitMix64
    hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9u;
    hash = (hash ^ hash >> 27) * 0x94D049BB133111EBu;
    size_t slot = (hash ^ hash >> 31) & (slots_.size() - 1);
    while (slots_[slot].key != key && slots_[slot].key != kFree) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  std::vector<Slot> slots_;
};

/// Merges within one word, in O(n log n) time for n symbols. Its memory is kept from word to word. The table
/// must outlive it.
class WordMerger {
 public:
  explicit WordMerger(const MergeTable& merges) : merges_(merges) {}

  /// Forgets the last word.
  void clear() { symbols_.clear(); }
  void add(int32_t symbol) { symbols_.push_back({symbol, kNone, kNone}); }
  /// Merges the pair of the lowest rank, the leftmost of equals, until no pair can be merged.
  void merge();
  /// Calls `visit(symbol)` for what is left, in order.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (uint32_t i = symbols_.empty() ? kNone : 0; i != kNone; i = symbols_[i].next) visit(symbols_[i].id);
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Symbol {
    int32_t id;  // -1 once merged into the symbol before it
    uint32_t previous, next;
  };

  static uint64_t entry(uint32_t rank, uint32_t left) { return static_cast<uint64_t>(rank) << 32 | left; }
  void link_and_sort();
  uint64_t pop();
  void apply(uint32_t rank, uint32_t left);
  void push(uint32_t left);

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  // Pairs to merge, as rank and left symbol. Those of the word as it came are sorted once and read in order;
  // those that merges bring about wait in a heap with the lowest on top.
  std::vector<uint64_t> first_;
  size_t next_first_ = 0;
  std::vector<uint64_t> later_;
};

}  // namespace soli
