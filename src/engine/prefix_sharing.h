#pragma once

#include <cstdint>
#include <span>

#include "engine/prefix_cache.h"
#include "engine/sequence.h"

namespace soli {

/// Which pages sequences take from the prefix cache and leave in it. Bits of keys and values depend on a
/// sequence's tokens and its PrefixKey alone, so nobody can tell a page that was taken from one that was
/// computed.
class PrefixSharing {
 public:
  /// `max_pages` as in PrefixCache.
  PrefixSharing(KvPagePool& pool, bool enabled, int64_t max_pages)
      : pool_(pool), cache_(pool, max_pages), enabled_(enabled) {}

  const PrefixCache& cache() const { return cache_; }

  /// Before its rows are planned: gives the sequence what the cache has of the tokens that it would compute
  /// next, as far as it needs nothing but their keys and values. Says how many of them are prompt tokens that
  /// it never had before.
  int64_t take(Sequence& sequence);
  /// After a step: leaves the sequence's whole pages in the cache.
  void leave(Sequence& sequence);
  /// After sequences have ended: keeps no more than may be kept.
  void trim() { cache_.trim(); }
  /// Whether a sequence that is planned already computes the very page that this one would, so that it had
  /// better wait a step and take it. `planned` ends at position `end` of `other`.
  bool waits_for(const Sequence& sequence, const Sequence& other, int64_t end) const;

  /// Pages that a request will have to allocate for its prompt and one token more.
  int64_t n_pages_needed(const Request& request);
  int64_t n_evictable() const { return cache_.n_evictable(); }
  /// Gives up all cached pages; false: there were none.
  bool clear();
  /// Something beside tokens and keys steers the routing from now on, or no more.
  void enable(bool enabled);

 private:
  bool is_shared(const Sequence& sequence) const {
    return enabled_ && sequence.request.use_prefix_cache && !sequence.is_private;
  }
  static PrefixKey key_of(const Request& request) { return {request.adapter, request.policy}; }

  KvPagePool& pool_;
  PrefixCache cache_;
  bool enabled_;
};

}  // namespace soli
