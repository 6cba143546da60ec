#include "cli/workbench.h"

#include <algorithm>

#include "base/rng.h"
#include "cli/generate.h"

namespace soli::cli {
namespace {

constexpr uint64_t kSeed = 20240229;  // any will do; the same in every run

/// Ids of ordinary tokens. Where soli cannot read the vocabulary, all: no text is needed here.
std::vector<int32_t> ordinary_tokens(Session& session) {
  const Result<const Tokenizer*> tokenizer = session.tokenizer();
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < session.spec().vocab_size; ++id) {
    const bool ordinary = !tokenizer || (id < (*tokenizer)->vocab_size() && !(*tokenizer)->is_control(id) &&
                                         !(*tokenizer)->is_end_of_generation(id));
    if (ordinary) ids.push_back(id);
  }
  if (ids.empty()) ids.push_back(0);
  return ids;
}

std::vector<int32_t> draw_tokens(const std::vector<int32_t>& ordinary, int64_t n, uint64_t number) {
  Rng rng(hash_u64(kSeed + number));
  std::vector<int32_t> tokens(static_cast<size_t>(n));
  for (int32_t& token : tokens) token = ordinary[rng.next_below(ordinary.size())];
  return tokens;
}

Request make_request(std::vector<int32_t> prompt, int64_t max_new_tokens, const RoutingPolicy& policy) {
  return {.prompt = std::move(prompt),
          .max_new_tokens = max_new_tokens,
          .sampling = {.temperature = 0},
          .policy = policy};
}

tl::unexpected<Error> interrupted() { return fail(ErrorKind::kCancelled, "interrupted"); }

}  // namespace

std::vector<int32_t> random_tokens(Session& session, int64_t n) {
  return draw_tokens(ordinary_tokens(session), n, 0);
}

DecodeBatch::~DecodeBatch() {
  if (sequences_.empty()) return;
  for (const Running& sequence : sequences_) sequence.stream->close();
  engine_->step();  // which frees them
}

Status DecodeBatch::advance() {
  if (interrupt_->interrupted()) return interrupted();
  if (!engine_->step()) return fail(ErrorKind::kLimit, "--memory: no room is left for keys and values");
  for (Running& sequence : sequences_) {
    while (const std::optional<StreamEvent> event = sequence.stream->try_pop()) {
      if (event->kind == StreamEvent::Kind::kToken) {
        sequence.n_tokens = event->position + 1;
      } else if (event->error) {
        return tl::unexpected<Error>(*event->error);
      } else {
        return fail(ErrorKind::kLimit, "a sequence ended after {} tokens: {}", sequence.n_tokens,
                    describe(event->reason));
      }
    }
  }
  return {};
}

Status DecodeBatch::step() {
  const int64_t before = n_positions();
  SOLI_RETURN_IF_ERROR(advance());
  if (n_positions() == before + n_sequences()) return {};
  return fail(ErrorKind::kLimit, "--memory: no room is left for keys and values of {} sequences",
              n_sequences());
}

int64_t DecodeBatch::n_positions() const {
  int64_t n = 0;
  for (const Running& sequence : sequences_) n += sequence.n_tokens;
  return n;
}

int64_t DecodeBatch::keys_seen(const ModelSpec& spec) const {
  int64_t n = 0;
  for (const Running& sequence : sequences_) n += spec.keys_seen(sequence.n_tokens - 1);
  return n;
}

int64_t Workbench::decode_positions(int64_t n_sequences, int64_t n_steps, int64_t chunk_rows) {
  const int64_t rows_left = std::max<int64_t>(1, chunk_rows - n_sequences + 1);
  const int64_t prompt_steps = (n_sequences * kDecodePromptTokens + rows_left - 1) / rows_left;
  return kDecodePromptTokens + prompt_steps + n_steps + 1;
}

Workbench::Workbench(Session& session, const InterruptGuard& interrupt)
    : engine_(session.engine()),
      policy_(session.policy()),
      interrupt_(interrupt),
      tokens_(ordinary_tokens(session)) {}

std::vector<int32_t> Workbench::random_prompt(int64_t n_tokens, uint64_t number) const {
  return draw_tokens(tokens_, n_tokens, number);
}

Result<double> Workbench::prefill(int64_t n_tokens) {
  Request request = make_request(random_prompt(n_tokens, 0), 1, policy_);
  const Stopwatch watch;
  SOLI_ASSIGN_OR_RETURN(const std::shared_ptr<Stream> stream, engine_.submit(std::move(request)));
  const auto close_if_interrupted = [&] {
    if (interrupt_.interrupted()) stream->close();
  };
  SOLI_ASSIGN_OR_RETURN(const StreamEvent event, next_event(engine_, *stream, close_if_interrupted));
  const double seconds = watch.seconds();
  if (event.error) return tl::unexpected<Error>(*event.error);
  if (event.kind == StreamEvent::Kind::kFinished) return interrupted();
  return seconds;
}

Result<DecodeBatch> Workbench::start_decode(int64_t n_sequences) {
  DecodeBatch batch(engine_, interrupt_);
  for (int64_t i = 0; i < n_sequences; ++i) {
    std::vector<int32_t> prompt = random_prompt(kDecodePromptTokens, static_cast<uint64_t>(i) + 1);
    SOLI_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream,
                          engine_.submit(make_request(std::move(prompt), -1, policy_)));
    batch.sequences_.push_back({std::move(stream), 0});
  }
  const auto waits = [](const DecodeBatch::Running& sequence) { return sequence.n_tokens == 0; };
  while (std::any_of(batch.sequences_.begin(), batch.sequences_.end(), waits)) {
    SOLI_RETURN_IF_ERROR(batch.advance());
  }
  return batch;
}

}  // namespace soli::cli
