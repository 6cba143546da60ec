#include "engine/prefix_sharing.h"

#include <algorithm>

namespace soli {
namespace {

int64_t in_whole_pages(int64_t n_positions) { return n_positions / kKvPagePositions * kKvPagePositions; }

std::span<const int32_t> first(const std::vector<int32_t>& tokens, int64_t n) {
  return std::span(tokens).first(static_cast<size_t>(n));
}

}  // namespace

int64_t PrefixSharing::take(Sequence& sequence) {
  if (!is_shared(sequence)) return 0;
  const int64_t most = sequence.n_skippable();
  if (most - sequence.n_computed < PrefixCache::kLeastPart) return 0;
  const PrefixCache::Match match = cache_.find(key_of(sequence.request), sequence.tokens, most);
  if (match.n_positions - sequence.n_computed < PrefixCache::kLeastPart) return 0;
  const int64_t n_kept = in_whole_pages(sequence.n_computed);
  sequence.kv.truncate(n_kept);
  for (auto i = static_cast<size_t>(n_kept / kKvPagePositions); i < match.pages.size(); ++i) {
    sequence.kv.share(match.pages[i]);
  }
  const int64_t n_before = sequence.n_once_computed;
  sequence.advance(match.n_positions - sequence.n_computed);
  sequence.n_left = in_whole_pages(sequence.n_computed);
  return std::max<int64_t>(std::min(sequence.n_computed, sequence.n_prompt()) - n_before, 0);
}

void PrefixSharing::leave(Sequence& sequence) {
  const int64_t n = in_whole_pages(sequence.n_computed);
  if (n <= sequence.n_left || !is_shared(sequence)) return;
  cache_.insert(key_of(sequence.request), first(sequence.tokens, n), sequence.kv);
  sequence.n_left = n;
}

bool PrefixSharing::waits_for(const Sequence& sequence, const Sequence& other, int64_t end) const {
  if (!is_shared(sequence) || !is_shared(other)) return false;
  const int64_t page_end = in_whole_pages(sequence.n_computed) + kKvPagePositions;
  if (sequence.n_skippable() < page_end || other.n_computed >= page_end || end < page_end) return false;
  const Request& ours_asked = sequence.request;
  if (ours_asked.adapter != other.request.adapter || ours_asked.policy != other.request.policy) return false;
  const auto ours = first(sequence.tokens, page_end);
  return std::equal(ours.begin(), ours.end(), other.tokens.begin());
}

int64_t PrefixSharing::n_pages_needed(const Request& request) {
  const auto n_prompt = static_cast<int64_t>(request.prompt.size());
  int64_t n = KvPageTable::pages_for(n_prompt + 1);
  if (!enabled_ || !request.use_prefix_cache || request.needs_all_rows()) return n;
  // What only the cache holds is counted as room by those who ask, and is taken from it.
  for (const KvPageId page : cache_.find(key_of(request), request.prompt, in_whole_pages(n_prompt - 1)).pages)
    n -= pool_.n_holders(page) > 1 ? 1 : 0;
  return n;
}

bool PrefixSharing::clear() {
  const bool had_pages = cache_.n_pages() > 0;
  cache_.clear();
  return had_pages;
}

void PrefixSharing::enable(bool enabled) {
  enabled_ = enabled;
  clear();
}

}  // namespace soli
