#include "serve/request_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace soli::serve {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxPathBytes = 200;

/// In milliseconds, to a tenth.
double ms(double seconds) { return std::round(seconds * 1e4) / 10; }

std::string time_now() {
  struct timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm utc = {};
  ::gmtime_r(&now.tv_sec, &utc);
  char text[32];
  const size_t n = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", std::string_view(text, n), now.tv_nsec / 1'000'000);
}

}  // namespace

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kStop:
      return "stop";
    case Outcome::kLength:
      return "length";
    case Outcome::kAbort:
      return "abort";
    case Outcome::kError:
      return "error";
  }
  return "error";
}

void RequestUse::add(const RequestSummary& summary, Outcome its_outcome) {
  n_prompt += summary.n_prompt;
  n_cached += summary.n_cached;
  n_generated += summary.n_generated;
  n_preempted += summary.n_preempted;
  const EngineTime begun = summary.first_computed.value_or(summary.finished);
  queue_seconds = std::max(queue_seconds, seconds_between(summary.submitted, begun));
  const EngineTime first = summary.first_token.value_or(summary.finished);
  prefill_seconds = std::max(prefill_seconds, seconds_between(begun, first));
  decode_seconds = std::max(decode_seconds, seconds_between(first, summary.finished));
  outcome = std::max(outcome.value_or(its_outcome), its_outcome);
}

void RequestContext::add_use(const RequestSummary& summary, Outcome outcome) {
  const std::lock_guard lock(mutex_);
  use_.add(summary, outcome);
}

RequestUse RequestContext::use() const {
  const std::lock_guard lock(mutex_);
  return use_;
}

void RequestContext::set_failure(std::string failure) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
}

std::string RequestContext::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void RequestContext::set_trace(std::shared_ptr<RequestTrace> trace) {
  const std::lock_guard lock(mutex_);
  trace_ = std::move(trace);
}

std::shared_ptr<RequestTrace> RequestContext::trace() const {
  const std::lock_guard lock(mutex_);
  return trace_;
}

std::string access_line(const HttpRecord& record, const RequestContext* context) {
  Json line = {{"time", time_now()},
               {"id", record.id},
               {"client", record.peer},
               {"method", printable(record.method, 20)},
               {"path", printable(record.path, kMaxPathBytes)},
               {"status", record.status},
               {"bytes_in", record.bytes_in},
               {"bytes_out", record.bytes_out},
               {"ms", ms(record.seconds)},
               {"write_ms", ms(record.write_seconds)}};
  if (record.abandoned) line["client_left"] = true;
  if (record.cut_off) line["cut_off"] = true;
  if (context != nullptr && !context->key_name.empty()) line["key"] = context->key_name;
  const RequestUse use = context == nullptr ? RequestUse() : context->use();
  if (use.outcome) {
    line["outcome"] = name_of(*use.outcome);
    line["prompt_tokens"] = use.n_prompt;
    line["cached_tokens"] = use.n_cached;
    line["completion_tokens"] = use.n_generated;
    line["queue_ms"] = ms(use.queue_seconds);
    line["prefill_ms"] = ms(use.prefill_seconds);
    line["decode_ms"] = ms(use.decode_seconds);
    if (use.n_preempted > 0) line["preempted"] = use.n_preempted;
  }
  if (context != nullptr && !context->failure().empty()) line["error"] = context->failure();
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string failure_line(const HttpRecord& record, const RequestContext& context) {
  return fmt::format("request {} failed: {}", record.id, context.failure());
}

std::string slow_line(const HttpRecord& record, const RequestContext* context) {
  std::string line = fmt::format("slow request {} {} {}: {:.2f} s, writing {:.2f} s", record.id,
                                 printable(record.method, 20), printable(record.path, kMaxPathBytes),
                                 record.seconds, record.write_seconds);
  const RequestUse use = context == nullptr ? RequestUse() : context->use();
  if (!use.outcome) return line;
  return line + fmt::format(
                    ", waiting {:.2f} s, prefill {:.2f} s, decode {:.2f} s; {} prompt tokens ({} cached), {} "
                    "generated, {} times preempted, {}",
                    use.queue_seconds, use.prefill_seconds, use.decode_seconds, use.n_prompt, use.n_cached,
                    use.n_generated, use.n_preempted, name_of(*use.outcome));
}

}  // namespace soli::serve
