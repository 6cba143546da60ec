#pragma once

// The last requests for text, with the tokens and the routing of those that are to be looked at.

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "serve/openai/job.h"
#include "serve/request_log.h"

namespace soli::serve {

/// What is remembered of one request, without its tokens.
struct TracedSummary {
  std::string id;
  std::string_view path = {};      // of its route
  std::optional<size_t> key = {};  // of ApiKeys, that it came with
  int64_t started_ms = 0;
  bool stream = false;
  bool exact = true;
  int64_t n_choices = 0;
  int64_t experts_per_token = 0;
  std::optional<std::string> policy = {};  // JSON; absent: too large to be kept
  int64_t n_prompt = 0;                    // tokens of all prompts
  int64_t n_generated = 0;                 // of all choices, so far
  bool has_begun = false;                  // something has come back
  std::optional<RequestUse> use = {};      // when it is done

  // Of the first choice, where its routing is kept.
  bool has_tokens = false;
  int64_t n_tokens = 0;   // that are kept, the prompt's included
  int64_t n_routed = 0;   // positions whose routing is kept
  int64_t n_dropped = 0;  // tokens for which there was no room; none is kept after the first
};

struct TracedRequest : TracedSummary {
  std::vector<int32_t> prompt = {};
  std::deque<int32_t> generated = {};
  std::deque<uint16_t> layer_calls = {};  // [n_routed][layer with experts]: experts that the token called
  std::deque<uint16_t> ids = {};          // of all of these, one after another
  std::deque<float> weights = {};
};

/// Bounded by a number of requests and by bytes: the oldest goes first. Thread-safe; what takes long is
/// copied out.
class RequestTraces {
 public:
  static constexpr int64_t kMaxPolicyBytes = 16 << 10;

  RequestTraces(int64_t max_requests, int64_t max_bytes)
      : max_requests_(max_requests), max_bytes_(max_bytes) {}

  int64_t max_requests() const { return max_requests_; }
  int64_t max_bytes() const { return max_bytes_; }
  int64_t bytes() const;

  /// A new request; its number, for the calls below, which do nothing once it is forgotten.
  uint64_t begin(TracedRequest request);
  /// An event of one of its choices, as it comes. Tokens after the end of a text are not handed in.
  void add(uint64_t number, size_t choice, const StreamEvent& event);
  /// Its answer has ended.
  void finish(uint64_t number, const RequestUse& use);

  /// Requests that came with that key, the latest first, without tokens.
  std::vector<TracedSummary> list(std::optional<size_t> key) const;
  /// One of them, with its tokens. Nothing where there is none with that key.
  std::optional<TracedRequest> find(const std::string& id, std::optional<size_t> key) const;

 private:
  struct Entry {
    uint64_t number = 0;
    int64_t bytes = 0;
    TracedRequest request;
  };

  Entry* entry_of(uint64_t number);
  bool take_room(Entry& entry, int64_t bytes);
  void add_routing(Entry& entry, const TokenRouting& routing);

  const int64_t max_requests_;
  const int64_t max_bytes_;
  mutable std::mutex mutex_;
  std::deque<std::unique_ptr<Entry>> entries_;  // the oldest first
  uint64_t n_begun_ = 0;
  int64_t bytes_ = 0;
};

/// One request's way to its place among them. Thread-safe. When it goes, its answer has ended.
class RequestTrace {
 public:
  RequestTrace(std::shared_ptr<RequestTraces> traces, uint64_t number)
      : traces_(std::move(traces)), number_(number) {}

  RequestTrace(const RequestTrace&) = delete;
  RequestTrace& operator=(const RequestTrace&) = delete;
  ~RequestTrace() { finish({}); }

  void add(size_t choice, const StreamEvent& event) { traces_->add(number_, choice, event); }
  void finish(const RequestUse& use) { traces_->finish(number_, use); }

 private:
  const std::shared_ptr<RequestTraces> traces_;
  const uint64_t number_;
};

/// A request as it is remembered when it begins; its tokens, where the first choice comes with its routing.
/// Who it is from and when it began is the caller's to say.
TracedRequest traced_request(const openai::TextJob& job, bool model_is_exact);

}  // namespace soli::serve
