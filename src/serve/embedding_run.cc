#include "serve/embedding_run.h"

#include <algorithm>
#include <utility>

#include "serve/json_response.h"

namespace soli::serve {

EmbeddingRun::EmbeddingRun(const ModelBackend& backend, openai::EmbeddingJob job, Metrics& metrics,
                           std::shared_ptr<RequestContext> context, std::shared_ptr<Responder> responder,
                           std::function<void(std::function<void()>)> work)
    : backend_(backend),
      job_(std::move(job)),
      metrics_(metrics),
      context_(std::move(context)),
      responder_(std::move(responder)),
      work_(std::move(work)),
      vectors_(job_.requests.size()) {}

void EmbeddingRun::start(const ModelBackend& backend, openai::EmbeddingJob job, Metrics& metrics,
                         std::shared_ptr<RequestContext> context, std::shared_ptr<Responder> responder,
                         std::function<void(std::function<void()>)> work) {
  const std::shared_ptr<EmbeddingRun> run(new EmbeddingRun(
      backend, std::move(job), metrics, std::move(context), std::move(responder), std::move(work)));
  // The connection keeps the run until there is an answer, or nobody who waits for one.
  run->responder_->set_on_abandoned([run] {});
  run->schedule();
}

/// Any thread.
void EmbeddingRun::schedule() {
  if (scheduled_.exchange(true)) return;
  responder_->post([self = weak_from_this()] {
    if (const auto alive = self.lock()) alive->advance();
  });
}

void EmbeddingRun::advance() {
  scheduled_ = false;
  if (answered_) return;
  std::erase_if(running_, [&](Input& input) { return take(input); });
  if (!answered_) submit_more();
  if (answered_ || !running_.empty() || n_submitted_ < job_.requests.size()) return;
  answered_ = true;
  work_([self = shared_from_this()] {
    self->responder_->respond(
        json_response(200, openai::embedding_body(*self->backend_.model, self->job_, self->vectors_)));
  });
}

bool EmbeddingRun::take(Input& input) {
  while (std::optional<StreamEvent> event = input.stream->try_pop()) {
    if (event->kind == StreamEvent::Kind::kEmbedding) vectors_[input.index] = std::move(event->embedding);
    if (event->kind != StreamEvent::Kind::kFinished) continue;
    const bool is_whole = !event->error && event->reason != FinishReason::kCancelled;
    const Outcome outcome = is_whole ? Outcome::kStop : Outcome::kError;
    metrics_.count_choice(event->summary, outcome);
    context_->add_use(event->summary, outcome);
    if (is_whole) metrics_.count_prompt(event->summary.n_prompt);
    if (event->error) context_->set_failure(failure_text(backend_.path, *input.stream, *event->error));
    if (!is_whole) fail_with(event->error ? openai::run_error(*event->error) : openai::ending_error());
    return true;
  }
  return false;
}

void EmbeddingRun::submit_more() {
  while (running_.size() < kAtOnce && n_submitted_ < job_.requests.size()) {
    Result<std::shared_ptr<Stream>> stream = backend_.engine->submit(job_.requests[n_submitted_]);
    if (!stream) {
      const bool can_wait = stream.error().kind == ErrorKind::kLimit && !running_.empty();
      if (!can_wait) fail_with(openai::submit_error(stream.error()));
      return;
    }
    running_.push_back({.index = n_submitted_++, .stream = *std::move(stream)});
    running_.back().stream->set_on_ready([self = weak_from_this()] {
      if (const auto alive = self.lock()) alive->schedule();
    });
  }
}

void EmbeddingRun::fail_with(const openai::ApiError& error) {
  if (std::exchange(answered_, true)) return;
  responder_->respond(error_response(error));
}

void EmbeddingRun::end() {
  for (const Input& input : running_) {
    input.stream->set_on_ready(nullptr);
    input.stream->close();
    metrics_.count_choice({}, Outcome::kAbort);
  }
}

}  // namespace soli::serve
