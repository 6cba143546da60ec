#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/slab.h"
#include "model/kv_layout.h"

namespace soli {

/// All KV pages of an engine. A page is allocated and charged ("kv pages") when a sequence first needs it;
/// freed ones are kept for the next. Used by the engine's thread only.
class KvPagePool {
 public:
  KvPagePool(Budget& budget, int64_t page_bytes) : budget_(budget), page_bytes_(page_bytes) {}

  /// Fails with kLimit when the budget has no room for one more page.
  Result<std::byte*> allocate();
  void free(std::byte* page) { free_.push_back(page); }

  int64_t page_bytes() const { return page_bytes_; }
  int64_t n_pages() const { return static_cast<int64_t>(slabs_.size()); }
  int64_t n_pages_in_use() const { return n_pages() - static_cast<int64_t>(free_.size()); }

 private:
  Budget& budget_;
  const int64_t page_bytes_;
  std::vector<Slab> slabs_;  // one per page
  std::vector<std::byte*> free_;
};

/// The pages of one sequence: page p holds positions [p * kKvPagePositions, (p + 1) * kKvPagePositions).
class KvPageTable {
 public:
  explicit KvPageTable(KvPagePool& pool) : pool_(&pool) {}
  KvPageTable(KvPageTable&& other) noexcept : pool_(other.pool_), pages_(std::move(other.pages_)) {
    other.pages_.clear();
  }
  KvPageTable& operator=(KvPageTable&&) = delete;
  ~KvPageTable() { truncate(0); }

  /// Makes room for positions [0, n_positions).
  Status reserve(int64_t n_positions);
  /// Forgets all positions from n_positions on; pages beyond go back to the pool.
  void truncate(int64_t n_positions);

  std::span<std::byte* const> pages() const { return pages_; }

 private:
  KvPagePool* pool_;
  std::vector<std::byte*> pages_;
};

}  // namespace soli
