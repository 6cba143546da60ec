#include "cli/perplexity.h"

#include <algorithm>
#include <cmath>
#include <memory>

namespace soli::cli {
namespace {

struct RunningWindow {
  size_t number = 0;
  std::shared_ptr<Stream> stream;
  WindowLoss loss;
};

/// The log-probability that an event tells of, if it does: of its own token, or, where it brings the logits
/// after a position, of the next one.
Result<std::optional<double>> score(const RunningWindow& window, const std::vector<int32_t>& tokens,
                                    const StreamEvent& event, const Evaluation& evaluation) {
  if (!evaluation.on_logits) return event.logprob;
  const auto next = static_cast<size_t>(event.position) + 1;
  const bool is_last = next == tokens.size();
  if (!is_last || evaluation.to_the_end)
    SOLI_RETURN_IF_ERROR(evaluation.on_logits(window.number, event.position, event.logits));
  if (is_last) return std::optional<double>();
  return log_probability(event.logits, tokens[next]);
}

/// Takes what the stream holds. True once the window is finished.
Result<bool> drain(RunningWindow& window, const std::vector<int32_t>& tokens, const Evaluation& evaluation,
                   int64_t& n_scored) {
  while (std::optional<StreamEvent> event = window.stream->try_pop()) {
    if (event->kind == StreamEvent::Kind::kFinished) {
      if (event->error) return in_context(fmt::format("window {}", window.number), *std::move(event->error));
      return true;
    }
    SOLI_ASSIGN_OR_RETURN(const std::optional<double> logprob, score(window, tokens, *event, evaluation));
    if (!logprob) continue;
    if (!std::isfinite(*logprob)) {
      return fail(ErrorKind::kMalformed,
                  "window {}, position {}: the model gives a token the log-probability {}", window.number,
                  event->position, *logprob);
    }
    window.loss.nats -= *logprob;
    window.loss.n_tokens += 1;
    n_scored += 1;
  }
  return false;
}

Request make_request(const std::vector<int32_t>& window, const Evaluation& evaluation) {
  Request request;
  request.prompt = window;
  request.max_new_tokens = 0;
  request.policy = evaluation.policy;
  request.prompt_detail = evaluation.on_logits ? Detail::kLogits : Detail::kLogprob;
  return request;
}

}  // namespace

WindowPlan cut_into_windows(const std::vector<int32_t>& tokens, std::optional<int32_t> bos, int64_t window) {
  WindowPlan plan;
  const size_t n_before = bos ? 1 : 0;
  const size_t n_own = std::max<size_t>(1, static_cast<size_t>(window) - n_before);
  for (size_t begin = 0; begin < tokens.size(); begin += n_own) {
    const size_t end = std::min(begin + n_own, tokens.size());
    std::vector<int32_t> cut;
    if (bos) cut.push_back(*bos);
    cut.insert(cut.end(), tokens.begin() + static_cast<int64_t>(begin),
               tokens.begin() + static_cast<int64_t>(end));
    if (cut.size() < 2) break;
    plan.n_scored += static_cast<int64_t>(cut.size()) - 1;
    plan.windows.push_back(std::move(cut));
  }
  return plan;
}

double Perplexity::perplexity() const { return std::exp(nats_per_token); }

std::optional<double> Perplexity::perplexity_error() const {
  if (!nats_error) return std::nullopt;
  return perplexity() * *nats_error;
}

Perplexity combine(const std::vector<WindowLoss>& losses) {
  Perplexity result;
  double nats = 0;
  for (const WindowLoss& loss : losses) {
    nats += loss.nats;
    result.n_tokens += loss.n_tokens;
  }
  result.n_windows = static_cast<int64_t>(losses.size());
  if (result.n_tokens == 0) return result;
  const auto n_tokens = static_cast<double>(result.n_tokens);
  result.nats_per_token = nats / n_tokens;
  if (losses.size() < 2) return result;
  double squares = 0;
  for (const WindowLoss& loss : losses) {
    const double residual = loss.nats - result.nats_per_token * static_cast<double>(loss.n_tokens);
    squares += residual * residual;
  }
  const auto n = static_cast<double>(losses.size());
  result.nats_error = std::sqrt(squares * n / (n - 1)) / n_tokens;
  return result;
}

Result<std::vector<WindowLoss>> evaluate(Engine& engine, const WindowPlan& plan,
                                         const Evaluation& evaluation) {
  std::vector<WindowLoss> losses;
  std::vector<RunningWindow> running;
  size_t next = 0;
  int64_t n_scored = 0;
  while (true) {
    while (next < plan.windows.size() && static_cast<int64_t>(running.size()) < evaluation.n_parallel) {
      SOLI_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream,
                            engine.submit(make_request(plan.windows[next], evaluation)));
      if (evaluation.on_submit) SOLI_RETURN_IF_ERROR(evaluation.on_submit(next, stream->id()));
      running.push_back({next, std::move(stream), {.nats = 0, .n_tokens = 0, .window = next}});
      ++next;
    }
    if (running.empty()) return losses;
    if (!engine.step()) return fail(ErrorKind::kLimit, "--memory: no room is left for keys and values");
    std::vector<RunningWindow> still_running;
    for (RunningWindow& window : running) {
      SOLI_ASSIGN_OR_RETURN(const bool finished,
                            drain(window, plan.windows[window.number], evaluation, n_scored));
      if (finished) {
        losses.push_back(window.loss);
      } else {
        still_running.push_back(std::move(window));
      }
    }
    running = std::move(still_running);
    if (!evaluation.on_progress(n_scored, losses)) return losses;
  }
}

}  // namespace soli::cli
