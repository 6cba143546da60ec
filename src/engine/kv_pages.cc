#include "engine/kv_pages.h"

namespace soli {
namespace {

size_t pages_for(int64_t n_positions) {
  return static_cast<size_t>((n_positions + kKvPagePositions - 1) / kKvPagePositions);
}

}  // namespace

Result<std::byte*> KvPagePool::allocate() {
  if (free_.empty()) {
    SOLI_ASSIGN_OR_RETURN(Slab slab, Slab::allocate(budget_, "kv pages", page_bytes_));
    slabs_.push_back(std::move(slab));
    return slabs_.back().data();
  }
  std::byte* const page = free_.back();
  free_.pop_back();
  return page;
}

Status KvPageTable::reserve(int64_t n_positions) {
  while (pages_.size() < pages_for(n_positions)) {
    SOLI_ASSIGN_OR_RETURN(std::byte* const page, pool_->allocate());
    pages_.push_back(page);
  }
  return {};
}

void KvPageTable::truncate(int64_t n_positions) {
  while (pages_.size() > pages_for(n_positions)) {
    pool_->free(pages_.back());
    pages_.pop_back();
  }
}

}  // namespace soli
