#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "engine/request_check.h"

namespace soli {
namespace {

Status check_positive(const char* name, int64_t value, int64_t most) {
  if (value >= 1 && value <= most) return {};
  return fail(ErrorKind::kInvalidArgument, "{}: {} is not allowed; 1 to {}", name, value, most);
}

SchedulerLimits scheduler_limits(const EngineOptions& options) {
  return {.max_sequences = options.max_sequences,
          .max_queued = options.max_queued,
          .max_queued_per_tenant = options.max_queued_per_tenant,
          .chunk_rows = options.chunk_rows,
          .max_logit_rows = options.max_logit_rows,
          .max_slowdown = options.max_slowdown,
          .chunks_share_reads = options.chunks_share_reads,
          .prefix_cache = options.prefix_cache && options.hooks.control == nullptr,
          .max_cached_pages = options.max_cached_pages};
}

int64_t most_experts_per_token(const ModelSpec& spec, const EngineOptions& options) {
  return std::max(options.max_experts_per_token, spec.router.experts_per_token);
}

EngineClock clock_of(const EngineOptions& options) {
  if (options.clock != nullptr) return *options.clock;
  return [] { return std::chrono::steady_clock::now(); };
}

int64_t effective_context(const ModelSpec& spec, const EngineOptions& options) {
  return options.context_length == 0 ? spec.context_length : options.context_length;
}

}  // namespace

KvPagePool::Shape EngineOptions::page_shape(const ModelSpec& spec) const {
  const RoutingLayout routing(spec, most_experts_per_token(spec, *this));
  return {.kv_bytes = KvLayout(spec, kv_type).page_bytes(),
          .routing_bytes = keep_routing ? routing.page_bytes() : 0,
          .state_bytes = keep_steering_state && spec.is_moe() ? SteeringLayout(spec).page_bytes() : 0,
          .max_pages = max_kv_pages};
}

Engine::Engine(const Model& model, ExpertExecutor& experts, const EngineOptions& options, Workspace workspace,
               std::optional<TokenExperts> token_experts)
    : model_(model),
      experts_(experts),
      options_(options),
      hooks_(options.hooks),
      context_length_(effective_context(model.spec(), options)),
      wakeup_(std::make_shared<Wakeup>()),
      layout_{KvLayout(model.spec(), options.kv_type), model.rope(context_length_)},
      routing_layout_(model.spec(), most_experts_per_token(model.spec(), options)),
      routing_keeper_(routing_layout_),
      pages_(model.runtime().budget(), options.page_shape(model.spec())),
      context_{model.runtime().team(), model.runtime().kernels(), options.activations},
      workspace_(std::move(workspace)),
      token_experts_(std::move(token_experts)),
      scheduler_(scheduler_limits(options), pages_, clock_of(options), meter_,
                 token_experts_ ? &*token_experts_ : nullptr),
      delivery_(context_length_, &routing_layout_, clock_of(options), meter_) {}

Result<std::unique_ptr<Engine>> Engine::create(const Model& model, ExpertExecutor& experts,
                                               const EngineOptions& options) {
  constexpr int64_t kMost = 65'536;
  SOLI_RETURN_IF_ERROR(
      check_positive("context length", effective_context(model.spec(), options), kMaxContextLength));
  SOLI_RETURN_IF_ERROR(check_positive("sequences per step", options.max_sequences, kMost));
  SOLI_RETURN_IF_ERROR(check_positive("queued requests", options.max_queued, kMost));
  SOLI_RETURN_IF_ERROR(check_positive("rows per step", options.chunk_rows, kMost));
  SOLI_RETURN_IF_ERROR(check_positive("logit rows per step", options.max_logit_rows, kMost));
  for (const auto& [name, value] : {std::pair("queued requests of a tenant", options.max_queued_per_tenant),
                                    std::pair("kv pages", options.max_kv_pages),
                                    std::pair("cached kv pages", options.max_cached_pages)}) {
    if (value < 0) return fail(ErrorKind::kInvalidArgument, "{}: {} is not allowed; 0 or more", name, value);
  }
  if (options.max_slowdown != 0 && !(options.max_slowdown >= 1)) {
    return fail(ErrorKind::kInvalidArgument, "slowdown by prompts: {} is not allowed; 1 or more, or 0",
                options.max_slowdown);
  }
  SOLI_ASSIGN_OR_RETURN(Workspace workspace, Workspace::create(model.spec(), model.runtime().budget(),
                                                               options.workspace_limits()));
  std::optional<TokenExperts> token_experts;
  if (options.group_requests && model.spec().is_moe()) {
    SOLI_ASSIGN_OR_RETURN(token_experts, TokenExperts::create(model.spec(), model.runtime().budget()));
  }
  return std::unique_ptr<Engine>(
      new Engine(model, experts, options, std::move(workspace), std::move(token_experts)));
}

Result<std::shared_ptr<Stream>> Engine::submit(Request request) {
  SOLI_ASSIGN_OR_RETURN(const auto streams, submit_all(std::span(&request, 1)));
  return streams.front();
}

Result<std::vector<std::shared_ptr<Stream>>> Engine::submit_all(std::span<const Request> requests) {
  const RequestLimits limits = {.context_length = context_length_,
                                .max_experts_per_token = options_.max_experts_per_token,
                                .keeps_routing = options_.keep_routing,
                                .keeps_steering_state = options_.keep_steering_state};
  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<QueuedRequest> queued;
  for (const Request& request : requests) {
    SOLI_RETURN_IF_ERROR(check_request(request, model_.spec(), limits));
    const RequestId id = next_id_.fetch_add(1);
    streams.push_back(std::make_shared<Stream>(id, wakeup_));
    queued.push_back({.id = id, .request = request, .stream = streams.back()});
    const size_t n = queued.size();
    if (n > 1 && queued[n - 2].request.policy == request.policy) {
      queued.back().request.steering = queued[n - 2].request.steering;
    } else {
      SOLI_ASSIGN_OR_RETURN(queued.back().request.steering,
                            resolve_policy(request.policy, model_.spec(), limits));
    }
  }
  SOLI_RETURN_IF_ERROR(scheduler_.enqueue(std::move(queued)));
  wakeup_->signal();
  return streams;
}

void Engine::cancel_all() {
  scheduler_.cancel_before(next_id_.load());
  wakeup_->signal();
}

void Engine::set_hooks(const Hooks& hooks) {
  if (hooks.control != hooks_.control) scheduler_.change_control(hooks.control != nullptr);
  hooks_ = hooks;
}

bool Engine::step() {
  if (hooks_.probe != nullptr) hooks_.probe->begin_step();
  wakeup_->clear();
  deliver_kept_routing();
  const Plan* plan = &scheduler_.plan();
  // Prompts that the plan took from the prefix cache may be ready once their routing is on its way.
  while (plan->parts.empty() && deliver_kept_routing()) plan = &scheduler_.plan();
  const bool has_work = !plan->parts.empty();
  if (has_work) run(*plan);
  show_state();
  if (has_work && hooks_.probe != nullptr) hooks_.probe->end_step();
  return has_work;
}

bool Engine::deliver_kept_routing() {
  bool delivered = false;
  for (const auto& sequence : scheduler_.running())
    delivered = delivery_.deliver_kept_routing(*sequence) || delivered;
  return delivered;
}

void Engine::run(const Plan& plan) {
  outcomes_.resize(std::max(outcomes_.size(), plan.parts.size()));  // their memory is used again
  for (size_t i = 0; i < plan.parts.size(); ++i) outcomes_[i].clear();
  if (recorder_ != nullptr && model_.spec().is_moe()) tell_recorder(plan);
  const auto output = forward(model_, plan.batch, layout_, context_, workspace_, experts_, step_hooks(plan));
  if (output) {
    find_outcomes(plan, *output);
  } else {
    for (size_t i = 0; i < plan.parts.size(); ++i) {
      outcomes_[i].finish = FinishReason::kFailed;
      outcomes_[i].error = output.error();
    }
  }
  count(plan);
  scheduler_.commit(std::span(outcomes_).first(plan.parts.size()));
}

/// Of requests that are new to it, and of tokens that came from the prefix cache.
void Engine::tell_recorder(const Plan& plan) {
  for (const PlannedRows& part : plan.parts) {
    Sequence& sequence = *part.sequence;
    if (!sequence.is_recorded)
      recorder_->on_request(sequence.id, sequence.n_prompt(), sequence.request.policy);
    sequence.is_recorded = true;
    for (int64_t at = sequence.n_recorded; options_.keep_routing && at < sequence.n_computed; ++at) {
      const TokenRouting kept = routing_layout_.read(sequence.kv.routing(at), at);
      recorder_->on_kept({.request = sequence.id,
                          .position = at,
                          .token = sequence.tokens[static_cast<size_t>(at)],
                          .layer_begin = kept.layer_begin,
                          .ids = kept.ids,
                          .weights = kept.weights});
    }
    sequence.n_recorded = std::max(sequence.n_recorded, sequence.n_computed + part.n);
  }
}

/// Those that were set, and the engine's own observers.
Hooks Engine::step_hooks(const Plan& plan) {
  Hooks hooks = hooks_;
  if (recorder_ != nullptr) {
    recorder_->begin_step(hooks.observer);
    hooks.observer = recorder_;
  }
  if (token_experts_) {
    token_experts_->begin_step(hooks.observer);
    hooks.observer = &*token_experts_;
  }
  if (!options_.keep_routing || !model_.spec().is_moe()) return hooks;
  row_routing_.clear();
  for (const PlannedRows& part : plan.parts) {
    for (int64_t i = 0; i < part.n; ++i)
      row_routing_.push_back(part.sequence->kv.routing(part.sequence->n_computed + i));
  }
  routing_keeper_.begin_step(row_routing_, hooks.observer);
  hooks.observer = &routing_keeper_;
  return hooks;
}

/// What the rows of each sequence led to.
void Engine::find_outcomes(const Plan& plan, const StepOutput& output) {
  int64_t logit_row = 0;
  int64_t hidden_row = 0;
  const auto row_of = [](MatrixView<const float> matrix, int64_t row) {
    return std::span(matrix.row(row), static_cast<size_t>(matrix.cols));
  };
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    const PlannedRows& part = plan.parts[p];
    Sequence& sequence = *part.sequence;
    bool failed = false;
    for (int64_t i = 0; i < part.n; ++i) {
      const BatchRow& row = plan.batch.rows[static_cast<size_t>(part.begin + i)];
      const auto logits = row.want_logits ? row_of(output.logits, logit_row++) : std::span<const float>();
      const auto hidden =
          row.want_hidden ? row_of(output.only_hidden, hidden_row++) : std::span<const float>();
      failed = failed || find_failure(part.begin + i, row, outcomes_[p]);
      if (failed) continue;  // the rows after it are counted, and mean nothing
      if (row.want_logits) delivery_.on_logits(sequence, row.position, logits, outcomes_[p]);
      if (row.want_hidden) delivery_.on_hidden(sequence, row.position, hidden, outcomes_[p]);
    }
  }
}

bool Engine::find_failure(int64_t batch_row, const BatchRow& row, Scheduler::Outcome& outcome) const {
  if (workspace_.row_failed[static_cast<size_t>(batch_row)] == 0) return false;
  outcome.finish = FinishReason::kFailed;
  // Clients of a server read this: no path, and no number that means something here only.
  outcome.error = Error{ErrorKind::kMalformed,
                        fmt::format("the model's values at position {} are not finite", row.position)};
  return true;
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
    counters.overflow = workspace_.overflow;
  });
}

void Engine::show_state() {
  meter_.update([&](EngineCounters& counters) {
    counters.n_paused = scheduler_.n_paused();
    counters.kv_pages = pages_.n_pages();
    counters.kv_pages_in_use = pages_.n_pages_in_use();
    counters.prefix_cache_pages = scheduler_.prefix_cache().n_pages();
    counters.prefix_cache_evictions = scheduler_.prefix_cache().n_evictions();
  });
}

}  // namespace soli
