#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/kv_pages.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/stream.h"
#include "engine/token_experts.h"

namespace soli {

/// One running request: its tokens, how many of them are in the KV pages, and its client.
struct Sequence {
  Sequence(RequestId id_in, Request request_in, std::shared_ptr<Stream> stream_in, KvPagePool& pool)
      : id(id_in),
        request(std::move(request_in)),
        stream(std::move(stream_in)),
        sampler(request.sampling),
        tokens(request.prompt),
        kv(pool) {
    summary.n_prompt = n_prompt();
  }

  int64_t n_prompt() const { return static_cast<int64_t>(request.prompt.size()); }
  int64_t n_tokens() const { return static_cast<int64_t>(tokens.size()); }
  int64_t n_generated() const { return n_tokens() - n_prompt(); }
  /// Gives the pages back; everything is computed again later, to the same bits.
  void preempt() {
    kv.truncate(0);
    n_computed = 0;
    n_left = 0;
    ++summary.n_preempted;
  }
  /// The model has seen `n` more tokens.
  void advance(int64_t n) {
    n_computed += n;
    SOLI_CHECK(n_computed <= n_tokens(), "{} of {} tokens", n_computed, n_tokens());
    n_once_computed = std::max(n_once_computed, n_computed);
  }
  /// Leading tokens of which nothing is needed but their keys and values; less than all.
  int64_t n_skippable() const {
    int64_t n = n_tokens() - 1;
    if (request.task == Task::kEmbedMean) n = std::min(n, n_pooled);
    if (request.prompt_detail == Detail::kNone || n_prompt_delivered >= n_prompt()) return n;
    // A probability is told with the token after the row that it comes from.
    const bool is_of_next = request.prompt_detail != Detail::kLogits;
    return std::min(n, std::max<int64_t>(n_prompt_delivered - (is_of_next ? 1 : 0), 0));
  }
  /// Tokens of the prompt that were never computed, nor cached.
  int64_t n_unread() const { return std::max<int64_t>(n_prompt() - n_once_computed, 0); }
  /// Tokens that the model has not seen yet.
  int64_t n_pending() const { return n_tokens() - n_computed; }

  const RequestId id;
  const Request request;
  const std::shared_ptr<Stream> stream;
  Sampler sampler;
  std::vector<int32_t> tokens;  // prompt and generated
  int64_t n_computed = 0;       // leading tokens whose keys and values are in `kv`
  int64_t n_once_computed = 0;  // the most that it ever was
  int64_t n_left = 0;           // leading tokens whose pages were left in the prefix cache
  bool was_paused = false;      // its client did not read, once at least
  bool is_private = false;      // its pages depend on more than its tokens and its request
  /// Leading prompt tokens that the client has: a recomputed prompt is not sent again.
  int64_t n_prompt_delivered = 0;
  /// What the client wants to know of prompt token n_prompt_delivered, from the row before it.
  std::optional<double> next_logprob;
  std::vector<TokenLogprob> next_top_logprobs;
  std::vector<double> pooled;  // [hidden] sum of the final hidden states of the first n_pooled tokens
  int64_t n_pooled = 0;
  TokenExperts::Profile profile;  // what it was expected to call, where that was asked for
  RequestSummary summary;
  KvPageTable kv;
  bool is_recorded = false;  // a recorder knows of it
  int64_t n_recorded = 0;    // leading tokens whose choices a recorder was told
};

}  // namespace soli
