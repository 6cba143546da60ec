#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/slab.h"
#include "model/kv_layout.h"

namespace soli {

using KvPageId = int32_t;

/// All KV pages of an engine. A page has holders: sequences that see it, and the prefix cache; it is written
/// only while it has one. Pages are allocated and charged ("kv pages", "kept routing", "steering state") when
/// they are first needed; those without a holder are kept for the next. Used by the engine's thread only.
class KvPagePool {
 public:
  struct Shape {
    int64_t kv_bytes = 0;       // of keys and values
    int64_t routing_bytes = 0;  // of the routing of the page's positions; 0: not kept
    int64_t state_bytes = 0;    // of their steering state, likewise
    int64_t max_pages = 0;      // 0: as many as the budget allows
  };

  KvPagePool(Budget& budget, const Shape& shape) : budget_(budget), shape_(shape) {}

  /// A page with one holder. Fails with kLimit when there is no room for one more, and none can be reclaimed.
  Result<KvPageId> allocate();
  void retain(KvPageId page) { ++at(page).n_holders; }
  /// A page without a holder is free.
  void release(KvPageId page);
  /// Who gives up a page that it alone holds, so that allocate() can have it; false: it has none.
  void set_reclaim(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }

  std::byte* data(KvPageId page) { return at(page).kv.data(); }
  /// [routing_bytes], see engine/page_routing.h.
  std::byte* routing(KvPageId page) { return at(page).routing.data(); }
  /// [state_bytes], see model/steering_state.h; null where it is not kept.
  std::byte* state(KvPageId page) { return at(page).state.data(); }
  int64_t n_holders(KvPageId page) const { return pages_[static_cast<size_t>(page)].n_holders; }
  void copy(KvPageId from, KvPageId to);

  const Shape& shape() const { return shape_; }
  /// What the budget is charged for one page.
  static int64_t charged_bytes(const Shape& shape);
  int64_t n_pages() const { return static_cast<int64_t>(pages_.size()); }
  int64_t n_pages_in_use() const { return n_pages() - static_cast<int64_t>(free_.size()); }
  /// Pages that allocate() could still give without reclaiming any, by the present state of the budget.
  int64_t n_room() const;

 private:
  struct Page {
    Slab kv;
    Slab routing;
    Slab state;
    int64_t n_holders = 0;
  };

  Page& at(KvPageId page) { return pages_[static_cast<size_t>(page)]; }
  Status add_page();

  Budget& budget_;
  const Shape shape_;
  std::vector<Page> pages_;  // by id
  std::vector<KvPageId> free_;
  std::function<bool()> reclaim_;
};

/// The pages of one sequence: page p holds positions [p * kKvPagePositions, (p + 1) * kKvPagePositions). Some
/// may be shared with others.
class KvPageTable {
 public:
  explicit KvPageTable(KvPagePool& pool) : pool_(&pool) {}
  KvPageTable(KvPageTable&& other) noexcept
      : pool_(other.pool_),
        ids_(std::move(other.ids_)),
        pages_(std::move(other.pages_)),
        states_(std::move(other.states_)) {
    other.ids_.clear();
    other.pages_.clear();
    other.states_.clear();
  }
  KvPageTable& operator=(KvPageTable&&) = delete;
  ~KvPageTable() { truncate(0); }

  /// Makes room for positions [0, n_positions).
  Status reserve(int64_t n_positions);
  /// Copies the page of `position`, if there is one and others hold it too, so that it may be written.
  Status unshare(int64_t position);
  /// Forgets all positions from n_positions on; pages beyond go back to the pool.
  void truncate(int64_t n_positions);
  /// Appends a page that others hold.
  void share(KvPageId page);
  /// Puts a page of equal contents in the place of one's own.
  void replace(size_t index, KvPageId page);

  std::span<std::byte* const> pages() const { return pages_; }
  std::span<const KvPageId> ids() const { return ids_; }
  /// The steering state of the pages; empty where the pool keeps none.
  std::span<std::byte* const> states() const { return states_; }
  /// The routing part of the page of `position`.
  std::byte* routing(int64_t position) const {
    return pool_->routing(ids_[static_cast<size_t>(position / kKvPagePositions)]);
  }
  /// Pages that so many positions need.
  static int64_t pages_for(int64_t n_positions) {
    return (n_positions + kKvPagePositions - 1) / kKvPagePositions;
  }

 private:
  void append(KvPageId page);
  void put(size_t index, KvPageId page);

  KvPagePool* pool_;
  std::vector<KvPageId> ids_;
  std::vector<std::byte*> pages_;   // their data
  std::vector<std::byte*> states_;  // their steering state, or empty
};

}  // namespace soli
