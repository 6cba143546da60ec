#include "serve/generation.h"

#include <chrono>
#include <utility>

#include "serve/dashboard/request_traces.h"
#include "serve/json_response.h"

namespace soli::serve {
namespace {

constexpr int kEventsAtOnce = 32;  // so that no stream holds up the others

int64_t seconds_since_1970() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Outcome outcome_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEndToken:
      return Outcome::kStop;
    case FinishReason::kMaxNewTokens:
    case FinishReason::kContextFull:
      return Outcome::kLength;
    case FinishReason::kCancelled:
      return Outcome::kAbort;
    case FinishReason::kFailed:
      return Outcome::kError;
  }
  return Outcome::kError;
}

}  // namespace

Generation::Generation(const ModelBackend& backend, openai::TextJob job, const std::string& id,
                       Metrics& metrics, std::shared_ptr<RequestContext> context)
    : model_path_(backend.path),
      job_(std::move(job)),
      answer_(*backend.model, job_, id, seconds_since_1970()),
      metrics_(metrics),
      context_(std::move(context)) {}

openai::ApiResult<std::unique_ptr<Generation>> Generation::submit(const ModelBackend& backend,
                                                                  openai::TextJob job, const std::string& id,
                                                                  Metrics& metrics,
                                                                  std::shared_ptr<RequestContext> context) {
  std::unique_ptr<Generation> generation(
      new Generation(backend, std::move(job), id, metrics, std::move(context)));
  auto streams = backend.engine->submit_all(generation->job_.requests);
  if (!streams) return tl::unexpected(openai::submit_error(streams.error()));
  for (std::shared_ptr<Stream>& stream : *streams)
    generation->choices_.push_back({.stream = std::move(stream)});
  return generation;
}

Generation::~Generation() { end(); }

void Generation::end() {
  for (size_t i = 0; i < choices_.size(); ++i) {
    Choice& choice = choices_[i];
    choice.stream->set_on_ready(nullptr);
    if (std::exchange(choice.finished, true)) continue;
    choice.stream->close();
    count(i, {}, choice.stopped ? Outcome::kStop : Outcome::kAbort);
  }
}

void Generation::set_on_ready(const std::function<void()>& on_ready) {
  for (const Choice& choice : choices_) choice.stream->set_on_ready(on_ready);
}

bool Generation::advance(std::vector<std::string>& payloads) {
  bool took_any = false;
  for (size_t i = 0; i < choices_.size(); ++i) {
    for (int n = 0; n < kEventsAtOnce && !answer_.done(); ++n) {
      std::optional<StreamEvent> event = choices_[i].stream->try_pop();
      if (!event) break;
      took_any = true;
      take(i, *std::move(event), payloads);
    }
  }
  return took_any;
}

void Generation::take(size_t index, StreamEvent event, std::vector<std::string>& payloads) {
  Choice& choice = choices_[index];
  count_prompt(index, event);
  if (trace_ != nullptr && !choice.stopped) trace_->add(index, event);
  if (event.kind == StreamEvent::Kind::kFinished) {
    choice.finished = true;
    if (event.error) context_->set_failure(failure_text(model_path_, *choice.stream, *event.error));
    count(index, event.summary, choice.stopped ? Outcome::kStop : outcome_of(event.reason));
  }
  const int64_t n_before = answer_.n_generated(index);
  const bool goes_on = answer_.push(index, std::move(event), payloads);
  metrics_.count_tokens(answer_.n_generated(index) - n_before);
  if (!goes_on && !choice.finished && !choice.stopped) {
    choice.stopped = true;
    choice.stream->close();
  }
}

/// As in the usage: once, whatever the number of its choices, when the first of them begins. One that ends
/// before, since it fails or the server ends, has no part in any usage.
void Generation::count_prompt(size_t index, const StreamEvent& event) {
  if (std::exchange(choices_[index].has_begun, true) || index % static_cast<size_t>(job_.n) != 0) return;
  const bool fails = event.kind == StreamEvent::Kind::kFinished &&
                     (event.reason == FinishReason::kFailed || event.reason == FinishReason::kCancelled);
  if (!fails) metrics_.count_prompt(static_cast<int64_t>(job_.requests[index].prompt.size()));
}

/// As in the usage: tokens that the engine drew after the end of a text are none of it, and a prompt is one
/// prompt, whatever the number of its choices.
void Generation::count(size_t index, RequestSummary summary, Outcome outcome) {
  summary.n_generated = answer_.n_generated(index);
  metrics_.count_choice(summary, outcome);
  if (index % static_cast<size_t>(job_.n) != 0) summary.n_prompt = summary.n_cached = 0;
  context_->add_use(summary, outcome);
}

namespace {

std::string as_event(const std::string& payload) { return "data: " + payload + "\n\n"; }

/// Events as text/event-stream: "data: PAYLOAD", a blank line.
class EventStream final : public BodySource {
 public:
  explicit EventStream(std::unique_ptr<Generation> generation) : generation_(std::move(generation)) {}

  void start(std::function<void()> wake) override { generation_->set_on_ready(wake); }

  std::optional<Piece> next() override {
    std::vector<std::string> payloads;
    const bool took_any = generation_->advance(payloads);
    const bool is_last = generation_->done();
    if (!took_any && !is_last) return {};
    // An error was the last word: without [DONE], nobody takes the answer for whole.
    if (is_last && !generation_->answer().error()) {
      generation_->answer().end(payloads);
      payloads.emplace_back("[DONE]");
    }
    Piece piece{.bytes = {}, .is_last = is_last};
    for (const std::string& payload : payloads) piece.bytes += as_event(payload);
    return piece;
  }

  std::string last_words() override { return as_event(openai::error_body(openai::ending_error())); }

 private:
  const std::unique_ptr<Generation> generation_;
};

class Collector : public std::enable_shared_from_this<Collector> {
 public:
  Collector(std::unique_ptr<Generation> generation, std::shared_ptr<Responder> responder,
            std::function<void(std::function<void()>)> work)
      : generation_(std::move(generation)), responder_(std::move(responder)), work_(std::move(work)) {}

  /// The engine's thread only says that something has come.
  void start() {
    generation_->set_on_ready([self = weak_from_this()] {
      const auto alive = self.lock();
      if (alive == nullptr || alive->scheduled_.exchange(true)) return;
      alive->responder_->post([self] {
        if (const auto still_alive = self.lock()) still_alive->collect();
      });
    });
  }

 private:
  void collect() {
    scheduled_ = false;
    if (answered_) return;
    std::vector<std::string> none;
    while (generation_->advance(none)) {
    }
    if (!generation_->done()) return;
    answered_ = true;
    generation_->end();
    work_([self = shared_from_this()] { self->answer(); });
  }

  void answer() {
    const openai::Answer& answer = generation_->answer();
    responder_->respond(answer.error() ? error_response(*answer.error()) : json_response(200, answer.body()));
  }

  const std::unique_ptr<Generation> generation_;
  const std::shared_ptr<Responder> responder_;
  const std::function<void(std::function<void()>)> work_;
  std::atomic<bool> scheduled_ = false;
  bool answered_ = false;
};

}  // namespace

std::string failure_text(const std::string& model_path, const Stream& stream, const Error& error) {
  const std::string text = in_context(model_path, error).value().message;
  return fmt::format("{} (request {} of the engine)", text, stream.id());
}

HttpResponse stream_answer(std::unique_ptr<Generation> generation) {
  HttpResponse response;
  response.headers = {{"Content-Type", "text/event-stream; charset=utf-8"},
                      {"Cache-Control", "no-cache"},
                      {"X-Accel-Buffering", "no"}};
  response.source = std::make_unique<EventStream>(std::move(generation));
  response.keep_alive_bytes = ": waiting\n\n";
  return response;
}

void collect_answer(std::unique_ptr<Generation> generation, const std::shared_ptr<Responder>& responder,
                    std::function<void(std::function<void()>)> work) {
  const auto collector = std::make_shared<Collector>(std::move(generation), responder, std::move(work));
  // The connection keeps the collector until there is an answer, or nobody who waits for one.
  responder->set_on_abandoned([collector] {});
  collector->start();
}

}  // namespace soli::serve
