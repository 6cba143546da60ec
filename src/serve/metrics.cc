#include "serve/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>

#include "serve/routes.h"

namespace soli::serve {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::map<std::string, std::string>;

// As vLLM's, where it has the same figure.
const std::vector<double> kFirstTokenSeconds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                                0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                                20,    40,    80,   160,  640,  2560};
const std::vector<double> kTokenSeconds = {0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4,
                                           0.5,   0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const std::vector<double> kRequestSeconds = {0.01, 0.05, 0.1, 0.3, 0.5, 0.8, 1,   1.5, 2,   2.5, 5,    10,
                                             15,   20,   30,  40,  50,  60,  120, 240, 480, 960, 1920, 7680};
const std::vector<double> kTokens = {1,   2,    5,    10,   20,     50,     100,    200,
                                     500, 1000, 2000, 5000, 10'000, 20'000, 50'000, 100'000};

/// Families that are made when somebody asks.
class Page {
 public:
  explicit Page(std::string model_id) : model_id_(std::move(model_id)) {}

  void counter(const char* name, const char* help, double value, const Labels& labels = {}) {
    add(name, help, MetricType::Counter, labels).counter.value = value;
  }
  void counter(const char* name, const char* help, int64_t value, const Labels& labels = {}) {
    counter(name, help, static_cast<double>(value), labels);
  }
  void gauge(const char* name, const char* help, double value, const Labels& labels = {}) {
    add(name, help, MetricType::Gauge, labels).gauge.value = value;
  }
  void append_to(std::vector<MetricFamily>& families) {
    families.insert(families.end(), std::make_move_iterator(families_.begin()),
                    std::make_move_iterator(families_.end()));
  }

 private:
  /// Series of one family come one after another.
  ClientMetric& add(const char* name, const char* help, MetricType type, const Labels& labels) {
    if (families_.empty() || families_.back().name != name) families_.push_back({name, help, type, {}});
    ClientMetric& metric = families_.back().metric.emplace_back();
    metric.label.push_back({"model_name", model_id_});
    for (const auto& [label, value] : labels) metric.label.push_back({label, value});
    return metric;
  }

  const std::string model_id_;
  std::vector<MetricFamily> families_;
};

double resident_bytes() {
  int64_t n_pages = 0;
  int64_t n_resident = 0;
  std::ifstream("/proc/self/statm") >> n_pages >> n_resident;
  return static_cast<double>(n_resident * ::sysconf(_SC_PAGESIZE));
}

void add_engine(Page& page, const ModelFigures& model) {
  const EngineCounters& engine = model.engine;
  page.gauge("soli_num_requests_running", "Requests that share the steps of the engine.",
             static_cast<double>(engine.n_running));
  page.gauge("soli_num_requests_paused", "Of those, the ones whose clients have yet to read.",
             static_cast<double>(engine.n_paused));
  page.gauge("soli_num_requests_waiting", "Requests that wait for a place.",
             static_cast<double>(engine.n_waiting));
  page.counter("soli_requests_refused_total", "Requests for which the queue was full.", engine.n_refused);
  page.counter("soli_num_preemptions_total", "Times that a sequence lost its KV pages to others.",
               engine.n_preempted);
  page.counter("soli_prefix_cache_queries_total",
               "Tokens of prompts that were looked for in the prefix cache, for each choice.",
               engine.prompt_tokens);
  page.counter("soli_prefix_cache_hits_total",
               "Tokens of prompts that the prefix cache had, for each choice.", engine.cached_prompt_tokens);
  page.counter("soli_prefix_cache_evictions_total", "KV pages that left the prefix cache.",
               engine.prefix_cache_evictions);
  page.counter("soli_engine_steps_total", "Steps of the engine; rows per step are the size of its batches.",
               engine.steps);
  page.counter("soli_engine_rows_total", "Rows that went through the model.", engine.prompt_rows,
               {{"phase", "prefill"}});
  page.counter("soli_engine_rows_total", "", engine.decode_rows, {{"phase", "decode"}});
  page.counter("soli_engine_recomputed_rows_total", "Rows that were computed again after a preemption.",
               engine.recomputed_rows);
  page.counter("soli_expert_overflow_total", "Calls of experts whose capacity, by a policy, was used up.",
               engine.overflow.n_moved, {{"result", "moved"}});
  page.counter("soli_expert_overflow_total", "", engine.overflow.n_dropped, {{"result", "dropped"}});
  page.gauge("soli_kv_pages", "KV pages in use.", static_cast<double>(engine.prefix_cache_pages),
             {{"owner", "prefix_cache"}});
  page.gauge("soli_kv_pages", "", static_cast<double>(engine.kv_pages_in_use - engine.prefix_cache_pages),
             {{"owner", "sequences"}});
  if (model.max_kv_pages > 0) {
    page.gauge("soli_kv_cache_usage_ratio", "Share of the KV pages that memory has room for that is in use.",
               static_cast<double>(engine.kv_pages_in_use) / static_cast<double>(model.max_kv_pages));
  }
}

Labels labels_of(const ExpertFigure& figure) {
  Labels labels = {{"expert", std::to_string(figure.expert)}};
  if (figure.layer) labels["layer"] = std::to_string(*figure.layer);
  return labels;
}

void add_expert_work(Page& page, const std::vector<ExpertFigure>& experts) {
  for (const ExpertFigure& figure : experts) {
    page.counter("soli_expert_calls_total", "Tokens that called an expert, in all layers or the one named.",
                 figure.work.calls, labels_of(figure));
  }
  for (const ExpertFigure& figure : experts) {
    page.counter("soli_expert_busy_seconds_total",
                 "Time of threads that multiplied for an expert, in all layers or the one named.",
                 static_cast<double>(figure.work.busy_ns) * 1e-9, labels_of(figure));
  }
}

void add_expert_cache(Page& page, const ModelFigures& model) {
  if (!model.cache) return;
  const CacheCounters& cache = *model.cache;
  page.gauge("soli_expert_slots", "Experts that memory has room for.",
             static_cast<double>(model.n_expert_slots));
  constexpr const char* kLookups = "Experts that a layer called, by where they were.";
  page.counter("soli_expert_cache_lookups_total", kLookups, cache.hits, {{"result", "hit"}});
  page.counter("soli_expert_cache_lookups_total", kLookups, cache.late_prefetches,
               {{"result", "late_prefetch"}});
  page.counter("soli_expert_cache_lookups_total", kLookups, cache.demand_misses, {{"result", "miss"}});
  constexpr const char* kPrefetches = "Experts that were read ahead, by what came of it.";
  page.counter("soli_expert_prefetches_total", kPrefetches, cache.prefetch_hits, {{"result", "hit"}});
  page.counter("soli_expert_prefetches_total", kPrefetches, cache.late_prefetches, {{"result", "late"}});
  page.counter("soli_expert_prefetches_total", kPrefetches, cache.wasted_prefetches, {{"result", "wasted"}});
  constexpr const char* kBytes = "Bytes of experts that were read.";
  page.counter("soli_expert_read_bytes_total", kBytes, cache.demanded_bytes, {{"result", "called"}});
  page.counter("soli_expert_read_bytes_total", kBytes, cache.wasted_bytes, {{"result", "wasted"}});
  page.counter("soli_expert_wait_seconds_total",
               "Time in which a step had nothing to compute for want of experts.",
               static_cast<double>(cache.wait_ns) * 1e-9);
}

}  // namespace

class Metrics::Impl {
 public:
  explicit Impl(const std::string& model_id);

  const double started =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::string model_id;
  mutable prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>* answers;
  std::array<prometheus::Counter*, kOutcomes> outcomes;
  prometheus::Counter* prompt_tokens_total;
  prometheus::Counter* generation_tokens;
  prometheus::Histogram* first_token;
  prometheus::Histogram* per_token;
  prometheus::Histogram* request;
  prometheus::Histogram* queue;
  prometheus::Histogram* prefill;
  prometheus::Histogram* decode;
  prometheus::Histogram* prompt_tokens;
  prometheus::Histogram* generated_tokens;

 private:
  prometheus::Histogram* histogram(const char* name, const char* help, const std::vector<double>& bounds) {
    return &prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(
        {{"model_name", model_id}}, prometheus::Histogram::BucketBoundaries(bounds));
  }
};

Metrics::Impl::Impl(const std::string& id) : model_id(id) {
  answers = &prometheus::BuildCounter()
                 .Name("soli_http_responses_total")
                 .Help("Answers, by path and status; status 0: the client left before there was one.")
                 .Register(registry);
  auto& ended = prometheus::BuildCounter()
                    .Name("soli_requests_total")
                    .Help("Choices that have ended, by how.")
                    .Register(registry);
  for (size_t i = 0; i < kOutcomes; ++i) {
    outcomes[i] = &ended.Add({{"model_name", id}, {"finished_reason", name_of(static_cast<Outcome>(i))}});
  }
  prompt_tokens_total = &prometheus::BuildCounter()
                             .Name("soli_prompt_tokens_total")
                             .Help("Tokens of prompts that answers were begun for, as in their usage.")
                             .Register(registry)
                             .Add({{"model_name", id}});
  generation_tokens = &prometheus::BuildCounter()
                           .Name("soli_generation_tokens_total")
                           .Help("Generated tokens that became part of an answer.")
                           .Register(registry)
                           .Add({{"model_name", id}});
  first_token =
      histogram("soli_time_to_first_token_seconds", "From the queue to the first token.", kFirstTokenSeconds);
  per_token = histogram("soli_time_per_output_token_seconds",
                        "Mean time between the tokens of a choice, after the first.", kTokenSeconds);
  request = histogram("soli_e2e_request_latency_seconds",
                      "From the first byte of a request for text or embeddings to the last of its answer.",
                      kRequestSeconds);
  queue = histogram("soli_request_queue_time_seconds", "From the queue to the first step.", kRequestSeconds);
  prefill = histogram("soli_request_prefill_time_seconds", "From the first step to the first token.",
                      kRequestSeconds);
  decode =
      histogram("soli_request_decode_time_seconds", "From the first token to the last.", kRequestSeconds);
  prompt_tokens = histogram("soli_request_prompt_tokens", "Tokens of a prompt.", kTokens);
  generated_tokens = histogram("soli_request_generation_tokens", "Generated tokens of a choice.", kTokens);
}

Metrics::Metrics(const std::string& model_id) : impl_(std::make_unique<Impl>(model_id)) {}
Metrics::~Metrics() = default;

void Metrics::count_answer(RouteId route, int status) {
  impl_->answers->Add({{"path", std::string(route_of(route).path)}, {"code", std::to_string(status)}})
      .Increment();
}

void Metrics::count_choice(const RequestSummary& summary, Outcome outcome) {
  impl_->outcomes[static_cast<size_t>(outcome)]->Increment();
  if (outcome == Outcome::kAbort || outcome == Outcome::kError || !summary.first_computed) return;
  impl_->queue->Observe(seconds_between(summary.submitted, *summary.first_computed));
  impl_->prompt_tokens->Observe(static_cast<double>(summary.n_prompt));
  impl_->generated_tokens->Observe(static_cast<double>(summary.n_generated));
  const EngineTime first = summary.first_token.value_or(summary.finished);
  impl_->prefill->Observe(seconds_between(*summary.first_computed, first));
  if (!summary.first_token) return;
  impl_->first_token->Observe(seconds_between(summary.submitted, first));
  impl_->decode->Observe(seconds_between(first, summary.finished));
  if (summary.n_generated > 1) {
    impl_->per_token->Observe(seconds_between(first, summary.finished) /
                              static_cast<double>(summary.n_generated - 1));
  }
}

void Metrics::count_prompt(int64_t n_tokens) {
  impl_->prompt_tokens_total->Increment(static_cast<double>(n_tokens));
}

void Metrics::count_tokens(int64_t n) {
  if (n > 0) impl_->generation_tokens->Increment(static_cast<double>(n));
}

void Metrics::observe_request(double seconds) { impl_->request->Observe(seconds); }

namespace {

LatencyCounts counts_of(const prometheus::Histogram& histogram) {
  const ClientMetric::Histogram collected = histogram.Collect().histogram;
  LatencyCounts counts{.sum = collected.sample_sum};
  uint64_t below = 0;
  for (const ClientMetric::Bucket& bucket : collected.bucket) {
    counts.counts.push_back(bucket.cumulative_count - below);
    below = bucket.cumulative_count;
    counts.bounds.push_back(bucket.upper_bound);
  }
  counts.bounds.pop_back();  // the last one is infinite
  return counts;
}

}  // namespace

Latencies Metrics::latencies() const {
  return {counts_of(*impl_->first_token), counts_of(*impl_->per_token)};
}

std::string Metrics::text(const ServerFigures& server, const std::optional<ModelFigures>& model) const {
  std::vector<MetricFamily> families = impl_->registry.Collect();
  Page page(impl_->model_id);
  page.gauge("soli_http_connections", "Open connections.", static_cast<double>(server.http.connections));
  page.counter("soli_http_connections_accepted_total", "Connections that were accepted.",
               server.http.connections_accepted);
  page.counter("soli_http_connections_refused_total", "Connections beyond the limit.",
               server.http.connections_refused);
  page.gauge("soli_http_bodies_bytes", "Bodies of requests that are being read or translated.",
             static_cast<double>(server.http.bodies_bytes));
  page.gauge("process_resident_memory_bytes", "Resident memory of the process.", resident_bytes());
  page.gauge("process_start_time_seconds", "Start of the server since 1970.", impl_->started);
  page.counter("soli_access_log_dropped_lines_total", "Lines that the access log could not take.",
               server.log_lines_dropped);
  if (server.hot_experts) {
    page.gauge("soli_hot_expert_alarms", "Experts that are called far more than others, of late.",
               static_cast<double>(server.hot_experts->open));
    page.counter("soli_hot_expert_alarms_raised_total", "Times that an expert became one of these.",
                 server.hot_experts->raised);
  }
  if (model) {
    add_engine(page, *model);
    add_expert_work(page, model->experts);
    add_expert_cache(page, *model);
    for (const auto& [part, bytes] : model->memory)
      page.gauge("soli_memory_bytes", "Memory by part.", static_cast<double>(bytes), {{"part", part}});
    page.gauge("soli_memory_limit_bytes", "The limit that --memory or the machine sets.",
               static_cast<double>(model->memory_limit_bytes));
  }
  page.append_to(families);
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace soli::serve
