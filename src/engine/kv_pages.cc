#include "engine/kv_pages.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"

namespace soli {

int64_t KvPagePool::charged_bytes(const Shape& shape) {
  return Slab::charged_bytes(shape.kv_bytes) + Slab::charged_bytes(shape.routing_bytes) +
         Slab::charged_bytes(shape.state_bytes);
}

Result<KvPageId> KvPagePool::allocate() {
  while (free_.empty()) {
    Status added = add_page();
    if (added) break;
    if (!reclaim_ || !reclaim_()) return tl::unexpected<Error>(std::move(added).error());
  }
  const KvPageId page = free_.back();
  free_.pop_back();
  at(page).n_holders = 1;
  return page;
}

Status KvPagePool::add_page() {
  const int64_t most =
      shape_.max_pages > 0 ? shape_.max_pages : int64_t{std::numeric_limits<KvPageId>::max()};
  if (n_pages() >= most) return fail(ErrorKind::kLimit, "all {} kv pages are in use", most);
  Page page;
  SOLI_ASSIGN_OR_RETURN(page.kv, Slab::allocate(budget_, "kv pages", shape_.kv_bytes));
  if (shape_.routing_bytes > 0) {
    SOLI_ASSIGN_OR_RETURN(page.routing, Slab::allocate(budget_, "kept routing", shape_.routing_bytes));
  }
  if (shape_.state_bytes > 0) {
    SOLI_ASSIGN_OR_RETURN(page.state, Slab::allocate(budget_, "steering state", shape_.state_bytes));
  }
  free_.push_back(static_cast<KvPageId>(pages_.size()));
  pages_.push_back(std::move(page));
  return {};
}

void KvPagePool::release(KvPageId page) {
  int64_t& n_holders = at(page).n_holders;
  SOLI_CHECK(n_holders > 0, "page {} has no holder", page);
  if (--n_holders == 0) free_.push_back(page);
}

void KvPagePool::copy(KvPageId from, KvPageId to) {
  std::memcpy(data(to), data(from), static_cast<size_t>(shape_.kv_bytes));
  if (shape_.routing_bytes > 0)
    std::memcpy(routing(to), routing(from), static_cast<size_t>(shape_.routing_bytes));
  if (shape_.state_bytes > 0) std::memcpy(state(to), state(from), static_cast<size_t>(shape_.state_bytes));
}

int64_t KvPagePool::n_room() const {
  int64_t n = (budget_.limit_bytes() - budget_.used_bytes()) / charged_bytes(shape_);
  if (shape_.max_pages > 0) n = std::min(n, shape_.max_pages - n_pages());
  return n + static_cast<int64_t>(free_.size());
}

Status KvPageTable::reserve(int64_t n_positions) {
  while (static_cast<int64_t>(pages_.size()) < pages_for(n_positions)) {
    SOLI_ASSIGN_OR_RETURN(const KvPageId page, pool_->allocate());
    append(page);
  }
  return {};
}

void KvPageTable::append(KvPageId page) {
  ids_.push_back(page);
  pages_.push_back(pool_->data(page));
  if (pool_->shape().state_bytes > 0) states_.push_back(pool_->state(page));
}

void KvPageTable::put(size_t index, KvPageId page) {
  ids_[index] = page;
  pages_[index] = pool_->data(page);
  if (pool_->shape().state_bytes > 0) states_[index] = pool_->state(page);
}

Status KvPageTable::unshare(int64_t position) {
  const auto index = static_cast<size_t>(position / kKvPagePositions);
  if (index >= ids_.size() || pool_->n_holders(ids_[index]) == 1) return {};
  SOLI_ASSIGN_OR_RETURN(const KvPageId copy, pool_->allocate());
  pool_->copy(ids_[index], copy);
  pool_->release(ids_[index]);
  put(index, copy);
  return {};
}

void KvPageTable::truncate(int64_t n_positions) {
  while (static_cast<int64_t>(pages_.size()) > pages_for(n_positions)) {
    pool_->release(ids_.back());
    ids_.pop_back();
    pages_.pop_back();
    if (!states_.empty()) states_.pop_back();
  }
}

void KvPageTable::share(KvPageId page) {
  pool_->retain(page);
  append(page);
}

void KvPageTable::replace(size_t index, KvPageId page) {
  if (ids_[index] == page) return;
  pool_->retain(page);
  pool_->release(ids_[index]);
  put(index, page);
}

}  // namespace soli
