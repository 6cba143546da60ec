#include "cli/generate.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "format/detokenizer.h"

namespace soli::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

double rate(int64_t n, double seconds) { return n > 0 && seconds > 0 ? static_cast<double>(n) / seconds : 0; }

int64_t rows_of(const Engine& engine) {
  return engine.counters().prompt_rows + engine.counters().decode_rows;
}

}  // namespace

Result<StreamEvent> next_event(Engine& engine, Stream& stream, FunctionRef<void()> before_step) {
  bool worked = true;
  while (true) {
    if (std::optional<StreamEvent> event = stream.try_pop()) return *std::move(event);
    if (!worked) return fail(ErrorKind::kLimit, "--memory: no room is left for keys and values");
    before_step();
    worked = engine.step();  // a step without work may yet end a stream: one that was closed
  }
}

int64_t Generation::n_prefilled() const { return std::min(n_prompt, n_computed); }

double Generation::prefill_tokens_per_second() const { return rate(n_prefilled(), prefill_seconds); }

double Generation::decode_tokens_per_second() const {
  return rate(static_cast<int64_t>(tokens.size()) - 1, decode_seconds);
}

Result<Generation> generate(Engine& engine, const Tokenizer& tokenizer, Request request,
                            const InterruptGuard& interrupt, FunctionRef<void(std::string_view)> on_text) {
  Generation generation;
  generation.n_prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t n_rows_before = rows_of(engine);
  SOLI_ASSIGN_OR_RETURN(const std::shared_ptr<Stream> stream, engine.submit(std::move(request)));
  generation.request = stream->id();
  Detokenizer detokenizer(tokenizer, {.render_special = false, .begins_text = false});
  const auto deliver = [&](const std::string& text) {
    if (text.empty()) return;
    generation.text += text;
    on_text(text);
  };

  const Clock::time_point begin = Clock::now();
  std::optional<Clock::time_point> first;
  const auto close_if_interrupted = [&] {
    if (interrupt.interrupted()) stream->close();
  };
  while (true) {
    SOLI_ASSIGN_OR_RETURN(StreamEvent event, next_event(engine, *stream, close_if_interrupted));
    if (event.kind == StreamEvent::Kind::kToken) {
      const Clock::time_point now = Clock::now();
      if (!first) first = now;
      generation.prefill_seconds = seconds_between(begin, *first);
      generation.decode_seconds = seconds_between(*first, now);
      generation.tokens.push_back(event.token);
      deliver(detokenizer.push(event.token));
    } else if (event.kind == StreamEvent::Kind::kFinished) {
      deliver(detokenizer.flush());
      if (!first) generation.prefill_seconds = seconds_between(begin, Clock::now());
      generation.reason = event.reason;
      generation.n_computed = rows_of(engine) - n_rows_before;
      if (event.error) return tl::unexpected<Error>(*std::move(event.error));
      return generation;
    }
  }
}

const char* describe(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEndToken:
      return "end of text";
    case FinishReason::kMaxNewTokens:
      return "token limit";
    case FinishReason::kContextFull:
      return "context full";
    case FinishReason::kCancelled:
      return "interrupted";
    case FinishReason::kFailed:
      return "failed";
  }
  return "failed";
}

const char* name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEndToken:
      return "end_token";
    case FinishReason::kMaxNewTokens:
      return "max_new_tokens";
    case FinishReason::kContextFull:
      return "context_full";
    case FinishReason::kCancelled:
      return "interrupted";
    case FinishReason::kFailed:
      return "failed";
  }
  return "failed";
}

}  // namespace soli::cli
