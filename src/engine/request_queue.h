#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "engine/request.h"
#include "engine/stream.h"
#include "engine/token_experts.h"

namespace soli {

struct QueuedRequest {
  RequestId id = 0;
  Request request;
  std::shared_ptr<Stream> stream;
  EngineTime submitted = {};
  int64_t n_passed = 0;                // younger ones that went before it
  TokenExperts::Profile profile = {};  // once somebody has asked for it
};

/// The requests that wait, and whose turn it is: that of the tenant that was served the fewest tokens (Sheng
/// et al. 2024, "Fairness in Serving Large Language Models"), those of its admitted prompts included. A
/// tenant that comes from idleness begins where the least served of the active ones stands, so that it
/// neither waits behind what others have queued nor has saved anything up; one that was ahead stays ahead.
/// Within a tenant the highest priority goes first, then the oldest. Not thread-safe.
class RequestQueue {
 public:
  int64_t size() const { return size_; }
  int64_t size_of(uint32_t tenant) const;
  void push(QueuedRequest queued);
  /// Those of which one has its turn, at most so many: of the tenant whose turn it is, with the highest
  /// priority, the oldest first. Valid until the queue changes.
  std::vector<QueuedRequest*> candidates(size_t most);
  /// Takes one of them: its tenant has one more request that runs, and older candidates were passed over.
  QueuedRequest pop(RequestId id);
  /// Takes all that `leaves` says.
  std::vector<QueuedRequest> take(FunctionRef<bool(const QueuedRequest&)> leaves);

  /// Counts tokens that were computed for a tenant with running requests; of their prompts, so many need not
  /// be computed any more.
  void serve(uint32_t tenant, int64_t n_tokens, int64_t n_of_prompts);
  /// A request of the tenant that ran has ended, with so many tokens of its prompt not computed.
  void leave(uint32_t tenant, int64_t n_unread);
  /// Tokens that a tenant with running requests was served, relative to the others.
  int64_t served(uint32_t tenant) const { return tenants_.at(tenant).served; }

 private:
  struct Tenant {
    int64_t served = 0;
    int64_t promised = 0;  // tokens of prompts of running requests that are still to be computed
    int64_t n_running = 0;
    std::map<std::pair<int64_t, RequestId>, QueuedRequest> waiting;  // by falling priority, then age

    bool is_active() const { return n_running > 0 || !waiting.empty(); }
  };
  using Tenants = std::map<uint32_t, Tenant>;

  /// What the least served of the active tenants has; `none` where there is none.
  int64_t least_served(int64_t none) const;
  Tenants::const_iterator least_served_that_waits() const;
  void forget_idle();

  Tenants tenants_;  // active ones, and idle ones that are ahead of them
  int64_t size_ = 0;
};

}  // namespace soli
