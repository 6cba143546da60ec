#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"

namespace soli {

/// A queue of at most `capacity` objects, numbered as they came. Memory is taken in blocks as the queue first
/// grows and kept; what it holds never moves, so that no push waits for a copy.
template <typename T>
class BlockRing {
 public:
  explicit BlockRing(int64_t capacity) : capacity_(capacity) {
    SOLI_CHECK(capacity > 0, "capacity {}", capacity);
    blocks_.resize(static_cast<size_t>((capacity - 1) / kBlock + 1));
  }

  int64_t capacity() const { return capacity_; }
  /// Objects [begin, end) are held.
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  int64_t size() const { return end_ - begin_; }

  /// There must be room.
  void push(const T& value) {
    std::unique_ptr<T[]>& block = blocks_[static_cast<size_t>(end_slot_ / kBlock)];
    if (block == nullptr) block = std::make_unique<T[]>(kBlock);
    block[static_cast<size_t>(end_slot_ % kBlock)] = value;
    ++end_;
    if (++end_slot_ == capacity_) end_slot_ = 0;
  }
  /// Forgets the oldest n objects.
  void pop(int64_t n) { begin_ += n; }
  /// Forgets all, and numbers from 0 again.
  void clear() { begin_ = end_ = end_slot_ = 0; }

  /// One that is held.
  const T& operator[](int64_t number) const {
    const int64_t slot = number % capacity_;
    return blocks_[static_cast<size_t>(slot / kBlock)][static_cast<size_t>(slot % kBlock)];
  }

 private:
  static constexpr int64_t kBlock = 1 << 14;

  const int64_t capacity_;
  std::vector<std::unique_ptr<T[]>> blocks_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
  int64_t end_slot_ = 0;  // end_ % capacity_
};

}  // namespace soli
