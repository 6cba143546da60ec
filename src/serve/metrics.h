#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/counters.h"
#include "engine/request.h"
#include "experts/cache_counters.h"
#include "serve/expert_figures.h"
#include "serve/http_server.h"
#include "serve/request_log.h"

namespace soli::serve {

/// How a loaded model stands when somebody asks.
struct ModelFigures {
  EngineCounters engine;
  int64_t max_running = 0;                // requests that share a step
  int64_t max_kv_pages = 0;               // that memory has room for, those in use included; 0: no limit
  std::map<std::string, int64_t> memory;  // charged bytes by part
  int64_t memory_limit_bytes = 0;
  std::vector<ExpertFigure> experts = {};   // empty for a dense model, and where nobody asked
  std::optional<CacheCounters> cache = {};  // absent where all experts are in memory
  int64_t n_expert_slots = 0;
};

/// Alarms of experts that are called far more than others.
struct HotExpertFigures {
  int64_t open = 0;
  int64_t raised = 0;  // ever
};

/// How the transport stands.
struct ServerFigures {
  HttpCounters http;
  int64_t log_lines_dropped = 0;
  std::optional<HotExpertFigures> hot_experts = {};  // absent where nobody looks out for them
};

/// A histogram since the start.
struct LatencyCounts {
  std::vector<double> bounds = {};    // [n], in seconds, ascending
  std::vector<uint64_t> counts = {};  // [n + 1]: up to each bound and above the one before; beyond the last
  double sum = 0;                     // of all values, in seconds
};
struct Latencies {
  LatencyCounts first_token;  // from the queue to the first token
  LatencyCounts per_token;    // mean time between the tokens of a choice
};

/// What /metrics shows, in the text format of Prometheus. Names follow its conventions, and those of vLLM,
/// with "soli_" for "vllm:", where that counts the same thing. Thread-safe.
class Metrics {
 public:
  explicit Metrics(const std::string& model_id);
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;
  ~Metrics();

  void count_answer(RouteId route, int status);
  /// One choice has ended.
  void count_choice(const RequestSummary& summary, Outcome outcome);
  /// A prompt of an answer, which counts once whatever the number of its choices.
  void count_prompt(int64_t n_tokens);
  /// Generated tokens that became part of an answer.
  void count_tokens(int64_t n);
  /// A request for text or embeddings was answered to its end.
  void observe_request(double seconds);

  Latencies latencies() const;
  /// The page. Without figures of a model while it loads.
  std::string text(const ServerFigures& server, const std::optional<ModelFigures>& model) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace soli::serve
