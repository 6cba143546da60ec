#include "cli/eval_measure.h"

#include <algorithm>
#include <utility>

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/workbench.h"

namespace soli::cli {
namespace {

void add_calls(std::vector<std::vector<int64_t>>& sum, const std::vector<std::vector<int64_t>>& more) {
  sum.resize(std::max(sum.size(), more.size()));
  for (size_t layer = 0; layer < more.size(); ++layer) {
    sum[layer].resize(std::max(sum[layer].size(), more[layer].size()));
    for (size_t e = 0; e < more[layer].size(); ++e) sum[layer][e] += more[layer][e];
  }
}

}  // namespace

double EvalResult::tokens_per_second() const {
  return seconds > 0 ? static_cast<double>(perplexity().n_tokens) / seconds : 0;
}

EvalResult& EvalResult::operator+=(const EvalResult& other) {
  losses.insert(losses.end(), other.losses.begin(), other.losses.end());
  window = other.window;
  seconds += other.seconds;
  complete = complete && other.complete;
  if (other.bytes_read) bytes_read = bytes_read.value_or(0) + *other.bytes_read;
  active += other.active;
  overflow.n_moved += other.overflow.n_moved;
  overflow.n_dropped += other.overflow.n_dropped;
  add_calls(calls, other.calls);
  return *this;
}

Rerouted& Rerouted::operator+=(const Rerouted& other) {
  n_calls += other.n_calls;
  n_moved += other.n_moved;
  n_used += other.n_used;
  n_twins += other.n_twins;
  return *this;
}

Comparison& Comparison::operator+=(const Comparison& other) {
  exact += other.exact;
  lossy += other.lossy;
  divergence += other.divergence;
  rerouted += other.rerouted;
  return *this;
}

EvalRuns::EvalRuns(const EvalOptions& options, Session& session, int64_t window)
    : options_(options), session_(session), window_(window), parameters_(count_parameters(session.file())) {}

int64_t EvalRuns::bytes_read() const {
  return session_.tiered() == nullptr ? 0 : sum(session_.tiered()->counters()).bytes_read();
}

Result<EvalResult> EvalRuns::run(const EvalText& text, const RoutingPolicy& policy, const std::string& label,
                                 const OnLogits& on_logits) {
  const InterruptGuard interrupt(InterruptGuard::Second::kEndsProcess);
  ProgressLine progress(label);
  RoutingTally tally(session_.spec());
  Engine& engine = session_.engine();
  engine.set_hooks({.observer = &tally});
  const OverflowCounts overflow_before = engine.counters().overflow;
  const int64_t bytes_before = bytes_read();
  const Stopwatch watch;
  double looking_seconds = 0;  // at distributions, which is no part of the work
  OnLogits timed;
  if (on_logits) {
    timed = [&](size_t window, int64_t position, std::span<const float> logits) {
      const Stopwatch looking;
      Status status = on_logits(window, position, logits);
      looking_seconds += looking.seconds();
      return status;
    };
  }
  const auto on_progress = [&](int64_t n_scored, const std::vector<WindowLoss>& done) {
    const std::string so_far =
        done.empty() ? "" : fmt::format("perplexity so far {:.3f}", combine(done).perplexity());
    progress.show(n_scored, text.plan.n_scored, so_far);
    return !interrupt.interrupted();
  };
  auto losses = evaluate(engine, text.plan, {options_.n_parallel, on_progress, timed, policy});
  engine.set_hooks({});
  if (!losses) return in_context(text.name, std::move(losses).error());
  EvalResult result = {
      .losses = *std::move(losses), .window = window_, .seconds = watch.seconds() - looking_seconds};
  result.complete = result.losses.size() == text.plan.windows.size();
  if (session_.tiered() != nullptr) result.bytes_read = bytes_read() - bytes_before;
  result.active = tally.totals(parameters_, result.perplexity().n_tokens);
  result.calls = tally.calls();
  const OverflowCounts overflow = engine.counters().overflow;
  result.overflow = {overflow.n_moved - overflow_before.n_moved,
                     overflow.n_dropped - overflow_before.n_dropped};
  return result;
}

Result<std::vector<Comparison>> EvalRuns::compare(const EvalText& text,
                                                  const std::vector<RoutingPolicy>& policies) {
  SOLI_ASSIGN_OR_RETURN(DivergenceMeter meter,
                        DivergenceMeter::create(text.plan, session_.spec().vocab_size));
  session_.set_exact(true);
  SOLI_ASSIGN_OR_RETURN(const EvalResult exact,
                        run(text, {}, "exact", [&](size_t window, int64_t position, auto logits) {
                          return meter.set_reference(window, position, logits);
                        }));
  session_.set_exact(false);
  std::vector<Comparison> comparisons;
  for (const RoutingPolicy& policy : policies) {
    comparisons.push_back({.exact = exact});
    if (!exact.complete) return comparisons;
    Comparison& comparison = comparisons.back();
    const CacheAwareRouter* const router = session_.cache_aware_router();
    const int64_t calls_before = router == nullptr ? 0 : router->n_calls();
    const int64_t moved_before = router == nullptr ? 0 : router->n_moved();
    const CacheCounters before =
        session_.tiered() == nullptr ? CacheCounters() : sum(session_.tiered()->counters());
    const std::string label = policies.size() == 1 ? "lossy" : fmt::format("{}", comparisons.size());
    SOLI_ASSIGN_OR_RETURN(comparison.lossy,
                          run(text, policy, label, [&](size_t window, int64_t position, auto logits) {
                            return meter.compare(window, position, logits);
                          }));
    comparison.divergence = meter.take_samples();
    if (router != nullptr) {
      comparison.rerouted.n_calls = router->n_calls() - calls_before;
      comparison.rerouted.n_moved = router->n_moved() - moved_before;
    }
    if (session_.tiered() != nullptr) {
      const CacheCounters used = sum(session_.tiered()->counters()) - before;
      comparison.rerouted.n_used = used.calls();
      comparison.rerouted.n_twins = used.twin_uses;
    }
    if (!comparison.lossy.complete) break;
  }
  return comparisons;
}

}  // namespace soli::cli
