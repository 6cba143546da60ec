#include "engine/engine.h"

#include <algorithm>
#include <utility>

namespace soli {
namespace {

Status check_positive(const char* name, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return {};
  return fail(ErrorKind::kInvalidArgument, "{}: {} is not allowed; 1 to {}", name, value, most);
}

SchedulerLimits scheduler_limits(const EngineOptions& options) {
  return {.max_sequences = options.max_sequences,
          .max_queued = options.max_queued,
          .chunk_rows = options.chunk_rows,
          .max_logit_rows = options.max_logit_rows};
}

/// What a client wants to know of the event's token, by the logits that belong to it.
void add_detail(StreamEvent& event, Detail detail, int64_t n_top, std::span<const float> logits) {
  if (detail == Detail::kLogits) event.logits.assign(logits.begin(), logits.end());
  if (detail == Detail::kLogprob || detail == Detail::kTopLogprobs) {
    event.logprob = log_probability(logits, event.token);
  }
  if (detail == Detail::kTopLogprobs) event.top_logprobs = top_log_probabilities(logits, n_top);
}

EngineClock clock_of(const EngineOptions& options) {
  if (options.clock != nullptr) return *options.clock;
  return [] { return std::chrono::steady_clock::now(); };
}

int64_t effective_context(const ModelSpec& spec, const EngineOptions& options) {
  return options.context_length == 0 ? spec.context_length : options.context_length;
}

}  // namespace

Engine::Engine(const Model& model, ExpertExecutor& experts, const EngineOptions& options, Workspace workspace)
    : model_(model),
      experts_(experts),
      options_(options),
      hooks_(options.hooks),
      context_length_(effective_context(model.spec(), options)),
      wakeup_(std::make_shared<Wakeup>()),
      layout_{KvLayout(model.spec(), options.kv_type), model.rope(context_length_)},
      pages_(model.runtime().budget(), layout_.kv.page_bytes()),
      context_{model.runtime().team(), model.runtime().kernels(), options.activations},
      workspace_(std::move(workspace)),
      scheduler_(scheduler_limits(options), pages_, clock_of(options), meter_) {}

Result<std::unique_ptr<Engine>> Engine::create(const Model& model, ExpertExecutor& experts,
                                               const EngineOptions& options) {
  constexpr int64_t kMost = 65'536;
  SOLI_RETURN_IF_ERROR(
      check_positive("context length", effective_context(model.spec(), options), kMaxContextLength));
  SOLI_RETURN_IF_ERROR(check_positive("sequences per step", options.max_sequences, kMost));
  SOLI_RETURN_IF_ERROR(check_positive("queued requests", options.max_queued, kMost));
  SOLI_RETURN_IF_ERROR(check_positive("rows per step", options.chunk_rows, kMost));
  SOLI_RETURN_IF_ERROR(check_positive("logit rows per step", options.max_logit_rows, kMost));
  SOLI_ASSIGN_OR_RETURN(Workspace workspace, Workspace::create(model.spec(), model.runtime().budget(),
                                                               options.workspace_limits()));
  return std::unique_ptr<Engine>(new Engine(model, experts, options, std::move(workspace)));
}

Result<std::shared_ptr<Stream>> Engine::submit(Request request) {
  SOLI_RETURN_IF_ERROR(validate(request));
  const RequestId id = next_id_.fetch_add(1);
  auto stream = std::make_shared<Stream>(id, wakeup_);
  SOLI_RETURN_IF_ERROR(scheduler_.enqueue(id, std::move(request), stream));
  wakeup_->signal();
  return stream;
}

void Engine::cancel_all() {
  scheduler_.cancel_before(next_id_.load());
  wakeup_->signal();
}

Status Engine::validate(const Request& request) const {
  if (request.prompt.empty())
    return fail(ErrorKind::kInvalidArgument, "the prompt is empty; it needs at least one token");
  if (static_cast<int64_t>(request.prompt.size()) > context_length_) {
    return fail(ErrorKind::kInvalidArgument, "the prompt has {} tokens, and the context holds {}",
                request.prompt.size(), context_length_);
  }
  const int64_t vocab_size = model_.spec().vocab_size;
  for (const int32_t token : request.prompt) {
    if (token < 0 || token >= vocab_size) {
      return fail(ErrorKind::kInvalidArgument, "token id {} is not in the vocabulary; 0 to {}", token,
                  vocab_size - 1);
    }
  }
  if (request.max_new_tokens < -1) {
    return fail(ErrorKind::kInvalidArgument, "new tokens: {} is not allowed; -1 for no limit, 0 or more",
                request.max_new_tokens);
  }
  if (request.adapter != -1)
    return fail(ErrorKind::kInvalidArgument, "adapter {} is not loaded", request.adapter);
  if (request.n_top_logprobs < 0) {
    return fail(ErrorKind::kInvalidArgument, "top logprobs: {} is not allowed; 0 or more",
                request.n_top_logprobs);
  }
  if (request.task != Task::kGenerate)
    return fail(ErrorKind::kUnsupported, "this engine gives no embeddings");
  if (request.want_routing) return fail(ErrorKind::kUnsupported, "this engine keeps no routing");
  SOLI_RETURN_IF_ERROR(request.sampling.validate());
  return validate(request.policy);
}

Status Engine::validate(const RoutingPolicy& policy) const {
  if (policy.is_exact()) return {};
  const RouterSpec& router = model_.spec().router;
  if (!model_.spec().is_moe()) {
    return fail(ErrorKind::kInvalidArgument,
                "a routing policy needs a model with experts, and this one is dense");
  }
  const int64_t most =
      std::min(std::max(options_.max_experts_per_token, router.experts_per_token), router.n_reachable());
  if (policy.experts_per_token < 0 || policy.experts_per_token > most) {
    return fail(ErrorKind::kInvalidArgument,
                "experts per token: {} is not allowed; 1 to {}, or 0 for the model's own {}",
                policy.experts_per_token, most, router.experts_per_token);
  }
  if (!(policy.relative_threshold >= 0 && policy.relative_threshold <= 1)) {
    return fail(ErrorKind::kInvalidArgument, "relative threshold: {} is not allowed; 0 to 1",
                policy.relative_threshold);
  }
  return check_positive("least experts per token", policy.k_min, router.n_experts);
}

bool Engine::step() {
  if (hooks_.probe != nullptr) hooks_.probe->begin_step();
  wakeup_->clear();
  const Plan& plan = scheduler_.plan();
  const bool has_work = !plan.parts.empty();
  if (has_work) run(plan);
  show_state();
  if (has_work && hooks_.probe != nullptr) hooks_.probe->end_step();
  return has_work;
}

void Engine::run(const Plan& plan) {
  const auto output = forward(model_, plan.batch, layout_, context_, workspace_, experts_, hooks_);
  outcomes_.resize(std::max(outcomes_.size(), plan.parts.size()));  // their memory is used again
  int64_t logit_row = 0;
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    const PlannedRows& part = plan.parts[i];
    outcomes_[i].clear();
    if (!output) {
      outcomes_[i].finish = FinishReason::kFailed;
      outcomes_[i].error = output.error();
      continue;
    }
    const auto rows =
        std::span(plan.batch.rows).subspan(static_cast<size_t>(part.begin), static_cast<size_t>(part.n));
    const int64_t n_wanted =
        std::count_if(rows.begin(), rows.end(), [](const BatchRow& row) { return row.want_logits; });
    find_outcome(part, rows, output->logits.row_range(logit_row, n_wanted), outcomes_[i]);
    logit_row += n_wanted;
  }
  count(plan);
  scheduler_.commit(std::span(outcomes_).first(plan.parts.size()));
}

/// What the rows of one sequence led to; `logits` are those of its rows that wanted them.
void Engine::find_outcome(const PlannedRows& part, std::span<const BatchRow> rows,
                          MatrixView<const float> logits, Scheduler::Outcome& outcome) {
  Sequence& sequence = *part.sequence;
  int64_t logit_row = 0;
  for (int64_t i = 0; i < part.n; ++i) {
    const int64_t position = sequence.n_computed + i;
    if (workspace_.row_failed[static_cast<size_t>(part.begin + i)] != 0) {
      outcome.finish = FinishReason::kFailed;
      outcome.error = Error{ErrorKind::kMalformed,
                            fmt::format("{}: the model's values at position {} are not finite (request {})",
                                        model_.file().gguf().path(), position, sequence.id)};
      return;
    }
    if (!rows[static_cast<size_t>(i)].want_logits) continue;
    const std::span<const float> row(logits.row(logit_row++), static_cast<size_t>(logits.cols));
    deliver_prompt_row(sequence, position, row);
    if (position == sequence.n_tokens() - 1) draw_token(sequence, row, outcome);
  }
}

/// Tells the client of prompt tokens, where it asked: the logits after the token at `position`, or the
/// probability of the token after it.
void Engine::deliver_prompt_row(Sequence& sequence, int64_t position, std::span<const float> logits) {
  const Detail detail = sequence.request.prompt_detail;
  if (detail == Detail::kNone) return;
  const auto deliver = [&](int64_t at, Detail of_token) {
    if (at != sequence.n_prompt_delivered || at >= sequence.n_prompt()) return;
    ++sequence.n_prompt_delivered;
    StreamEvent event = {.kind = StreamEvent::Kind::kPromptToken,
                         .token = sequence.tokens[static_cast<size_t>(at)],
                         .position = at};
    add_detail(event, of_token, sequence.request.n_top_logprobs, logits);
    sequence.stream->push(std::move(event));
  };
  if (detail == Detail::kLogits) {
    deliver(position, detail);
    return;
  }
  deliver(0, Detail::kNone);
  deliver(position + 1, detail);
}

void Engine::draw_token(Sequence& sequence, std::span<const float> logits, Scheduler::Outcome& outcome) {
  const Request& request = sequence.request;
  if (sequence.n_generated() == request.max_new_tokens) {  // only where that is 0
    outcome.finish = FinishReason::kMaxNewTokens;
    return;
  }
  if (sequence.n_tokens() >= context_length_) {
    outcome.finish = FinishReason::kContextFull;
    return;
  }
  const int32_t token = sequence.sampler.sample(logits, sequence.tokens);
  StreamEvent event = {.kind = StreamEvent::Kind::kToken, .token = token, .position = sequence.n_tokens()};
  add_detail(event, request.generated_detail, request.n_top_logprobs, logits);
  scheduler_.deliver_token(sequence, std::move(event));
  outcome.new_tokens.push_back(token);
  const auto& ends = request.end_tokens;
  if (std::find(ends.begin(), ends.end(), token) != ends.end()) {
    outcome.finish = FinishReason::kEndToken;
  } else if (sequence.n_generated() + 1 == request.max_new_tokens) {
    outcome.finish = FinishReason::kMaxNewTokens;
  } else if (sequence.n_tokens() + 1 >= context_length_) {
    outcome.finish = FinishReason::kContextFull;
  }
}

void Engine::count(const Plan& plan) {
  int64_t prompt_rows = 0;
  int64_t recomputed = 0;
  for (const PlannedRows& part : plan.parts) {
    const Sequence& sequence = *part.sequence;
    prompt_rows += std::clamp<int64_t>(sequence.n_prompt() - sequence.n_computed, 0, part.n);
    recomputed += std::clamp<int64_t>(sequence.n_once_computed - sequence.n_computed, 0, part.n);
  }
  meter_.update([&](EngineCounters& counters) {
    ++counters.steps;
    counters.prompt_rows += prompt_rows;
    counters.decode_rows += plan.batch.n_rows() - prompt_rows;
    counters.recomputed_rows += recomputed;
    counters.most_rows = std::max(counters.most_rows, plan.batch.n_rows());
  });
}

void Engine::show_state() {
  meter_.update([&](EngineCounters& counters) {
    counters.kv_pages = pages_.n_pages();
    counters.kv_pages_in_use = pages_.n_pages_in_use();
  });
}

}  // namespace soli
