#include "engine/request_queue.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/check.h"

namespace soli {

int64_t RequestQueue::size_of(uint32_t tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : static_cast<int64_t>(found->second.waiting.size());
}

void RequestQueue::push(QueuedRequest queued) {
  const int64_t least = least_served(0);
  Tenant& tenant = tenants_[queued.request.tenant];
  if (!tenant.is_active()) tenant.served = std::max(tenant.served, least);
  const std::pair place(-int64_t{queued.request.priority}, queued.id);
  tenant.waiting.emplace(place, std::move(queued));
  ++size_;
}

RequestQueue::Tenants::const_iterator RequestQueue::least_served_that_waits() const {
  auto best = tenants_.end();
  for (auto it = tenants_.begin(); it != tenants_.end(); ++it) {
    if (it->second.waiting.empty()) continue;
    const auto rank = [](const Tenant& tenant) {
      return std::pair(tenant.served + tenant.promised, tenant.waiting.begin()->second.id);
    };
    if (best == tenants_.end() || rank(it->second) < rank(best->second)) best = it;
  }
  return best;
}

std::vector<QueuedRequest*> RequestQueue::candidates(size_t most) {
  std::vector<QueuedRequest*> found;
  const auto place = least_served_that_waits();
  if (place == tenants_.end()) return found;
  auto& waiting = tenants_.at(place->first).waiting;
  const int64_t first_rank = waiting.begin()->first.first;
  for (auto& [rank, queued] : waiting) {
    if (found.size() == most || rank.first != first_rank) break;
    found.push_back(&queued);
  }
  return found;
}

QueuedRequest RequestQueue::pop(RequestId id) {
  const auto place = least_served_that_waits();
  SOLI_CHECK(place != tenants_.end());
  Tenant& tenant = tenants_.at(place->first);
  auto at = tenant.waiting.begin();
  for (; at->second.id != id; ++at) {
    ++at->second.n_passed;
    SOLI_CHECK(std::next(at) != tenant.waiting.end(), "request {} has no turn", id);
  }
  QueuedRequest queued = std::move(at->second);
  tenant.waiting.erase(at);
  --size_;
  ++tenant.n_running;
  tenant.promised += static_cast<int64_t>(queued.request.prompt.size());
  return queued;
}

std::vector<QueuedRequest> RequestQueue::take(FunctionRef<bool(const QueuedRequest&)> leaves) {
  std::vector<QueuedRequest> taken;
  for (auto& [number, tenant] : tenants_) {
    for (auto it = tenant.waiting.begin(); it != tenant.waiting.end();) {
      if (!leaves(it->second)) {
        ++it;
        continue;
      }
      taken.push_back(std::move(it->second));
      it = tenant.waiting.erase(it);
      --size_;
    }
  }
  if (!taken.empty()) forget_idle();
  return taken;
}

void RequestQueue::serve(uint32_t tenant, int64_t n_tokens, int64_t n_of_prompts) {
  Tenant& served = tenants_.at(tenant);
  served.served += n_tokens;
  served.promised -= n_of_prompts;
}

void RequestQueue::leave(uint32_t tenant, int64_t n_unread) {
  Tenant& left = tenants_.at(tenant);
  left.promised -= n_unread;
  --left.n_running;
  forget_idle();
}

int64_t RequestQueue::least_served(int64_t none) const {
  int64_t least = std::numeric_limits<int64_t>::max();
  bool any = false;
  for (const auto& [number, tenant] : tenants_) {
    if (!tenant.is_active()) continue;
    any = true;
    least = std::min(least, tenant.served);
  }
  return any ? least : none;
}

/// Idle tenants that are not ahead would begin where the active ones stand anyway.
void RequestQueue::forget_idle() {
  const int64_t least = least_served(std::numeric_limits<int64_t>::max());
  std::erase_if(tenants_,
                [&](const auto& entry) { return !entry.second.is_active() && entry.second.served <= least; });
}

}  // namespace soli
