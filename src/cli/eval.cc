// soli eval: perplexity of a model on a text, and how far a lossy one is from itself.
#include <CLI/CLI.hpp>
#include <chrono>
#include <limits>
#include <memory>

#include "base/units.h"
#include "cli/command.h"
#include "cli/divergence.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/perplexity.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "cli/text_input.h"

namespace soli::cli {
namespace {

constexpr int64_t kMinWindow = 2;  // a token, and one before it or BOS

struct EvalOptions {
  ModelOptions model;
  std::string text_file;
  int64_t window = 0;  // 0: the context
  int64_t max_tokens = 0;
  int64_t n_parallel = 4;
  bool against_exact = false;
  bool json = false;
};

// Rows of a step that bring their whole distribution: what is delivered and not yet looked at stays small.
constexpr int64_t kRowsOfDistributions = 8;

struct EvalResult {
  Perplexity perplexity;
  int64_t window = 0;
  double seconds = 0;
  bool complete = false;
  std::optional<int64_t> bytes_read = {};  // of experts, where not all are in memory

  double tokens_per_second() const {
    return seconds > 0 ? static_cast<double>(perplexity.n_tokens) / seconds : 0;
  }
};

Result<WindowPlan> plan_windows(const EvalOptions& options, Session& session, int64_t window) {
  SOLI_ASSIGN_OR_RETURN(const std::string text, read_text(options.text_file, kMaxEvaluatedBytes));
  SOLI_ASSIGN_OR_RETURN(const Tokenizer* const tokenizer, session.tokenizer());
  SOLI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer->encode(text, {.add_special = false}));
  const auto limit = static_cast<size_t>(options.max_tokens);
  if (limit > 0 && tokens.size() > limit) tokens.resize(limit);
  const std::optional<int32_t> bos = tokenizer->adds_bos() ? tokenizer->bos() : std::nullopt;
  WindowPlan plan = cut_into_windows(tokens, bos, window);
  if (plan.n_scored == 0) {
    return fail(ErrorKind::kInvalidArgument, "{}: has {} tokens; at least {} are needed to score one",
                options.text_file, tokens.size(), bos ? 1 : 2);
  }
  return plan;
}

using OnLogits = decltype(Evaluation::on_logits);

int64_t bytes_read(Session& session) {
  return session.tiered() == nullptr ? 0 : sum(session.tiered()->counters()).bytes_read();
}

Result<EvalResult> measure(const EvalOptions& options, Session& session, const WindowPlan& plan,
                           const std::string& label, const OnLogits& on_logits = {}) {
  using Clock = std::chrono::steady_clock;
  const InterruptGuard interrupt(InterruptGuard::Second::kEndsProcess);
  ProgressLine progress(label);
  const Clock::time_point begin = Clock::now();
  const int64_t bytes_before = bytes_read(session);
  const auto on_progress = [&](int64_t n_scored, const std::vector<WindowLoss>& done) {
    const std::string so_far =
        done.empty() ? "" : fmt::format("perplexity so far {:.3f}", combine(done).perplexity());
    progress.show(n_scored, plan.n_scored, so_far);
    return !interrupt.interrupted();
  };
  SOLI_ASSIGN_OR_RETURN(const std::vector<WindowLoss> losses,
                        evaluate(session.engine(), plan, {options.n_parallel, on_progress, on_logits}));
  EvalResult result = {.perplexity = combine(losses),
                       .seconds = std::chrono::duration<double>(Clock::now() - begin).count(),
                       .complete = losses.size() == plan.windows.size()};
  if (session.tiered() != nullptr) result.bytes_read = bytes_read(session) - bytes_before;
  return result;
}

using Json = nlohmann::ordered_json;

Json json_of(const EvalResult& result) {
  const Perplexity& perplexity = result.perplexity;
  const auto optional = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json json = {{"tokens", perplexity.n_tokens},
               {"windows", perplexity.n_windows},
               {"window", result.window},
               {"complete", result.complete},
               {"nats_per_token", perplexity.nats_per_token},
               {"nats_per_token_error", optional(perplexity.nats_error)},
               {"perplexity", perplexity.perplexity()},
               {"perplexity_error", optional(perplexity.perplexity_error())},
               {"seconds", result.seconds},
               {"tokens_per_second", result.tokens_per_second()}};
  if (result.bytes_read) json["expert_bytes_read"] = *result.bytes_read;
  return json;
}

Json json_of(const EvalOptions& options, Session& session, const EvalResult& result) {
  Json json = {{"model", options.model.path}, {"text", options.text_file}};
  json.update(json_of(result));
  json["act"] = name_of(session.options().engine.activations);
  json["kv"] = name_of(session.options().engine.kv_type);
  json["memory"] = to_json(session.plan(), session.options().memory);
  json["peak_resident_bytes"] = peak_resident_bytes();
  return json;
}

void print_text(const EvalResult& result) {
  const Perplexity& perplexity = result.perplexity;
  const auto error = [](const std::optional<double>& value) {
    return value ? fmt::format(" +- {:.4f}", *value) : std::string();
  };
  print("perplexity      {:.4f}{}\n", perplexity.perplexity(), error(perplexity.perplexity_error()));
  print("nats per token  {:.4f}{}\n", perplexity.nats_per_token, error(perplexity.nats_error));
  print("tokens          {} in {} windows of {} positions{}\n", perplexity.n_tokens, perplexity.n_windows,
        result.window, result.complete ? "" : ", interrupted");
  print("speed           {:.1f} tokens/s ({:.1f} s)\n", result.tokens_per_second(), result.seconds);
  if (result.bytes_read && perplexity.n_tokens > 0) {
    print("experts read    {} per token\n", format_bytes(*result.bytes_read / perplexity.n_tokens));
  }
  if (!perplexity.nats_error) print("one window only: no standard error\n");
}

/// The same windows, first exactly and then as the options say.
struct Comparison {
  EvalResult exact;
  EvalResult lossy;
  Divergence divergence;
  double moved_share = 0;  // of the calls of experts, to another expert than the model's choice
  double twin_share = 0;   // of the experts of a step that were computed by twins
};

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// The expert memory is as warm for the second run as the first one left it.
Result<Comparison> compare_with_exact(const EvalOptions& options, Session& session, const WindowPlan& plan) {
  SOLI_ASSIGN_OR_RETURN(DivergenceMeter meter, DivergenceMeter::create(plan, session.spec().vocab_size));
  Comparison comparison;
  session.set_exact(true);
  SOLI_ASSIGN_OR_RETURN(comparison.exact,
                        measure(options, session, plan, "exact",
                                [&](size_t window, int64_t position, std::span<const float> logits) {
                                  return meter.set_reference(window, position, logits);
                                }));
  if (!comparison.exact.complete) return comparison;
  session.set_exact(false);
  const CacheCounters before = sum(session.tiered()->counters());
  const CacheAwareRouter* const router = session.cache_aware_router();
  const int64_t calls_before = router == nullptr ? 0 : router->n_calls();
  SOLI_ASSIGN_OR_RETURN(comparison.lossy,
                        measure(options, session, plan, "lossy",
                                [&](size_t window, int64_t position, std::span<const float> logits) {
                                  return meter.compare(window, position, logits);
                                }));
  comparison.divergence = meter.result();
  const CacheCounters used = sum(session.tiered()->counters()) - before;
  comparison.twin_share = share(used.twin_uses, used.calls());
  if (router != nullptr) comparison.moved_share = share(router->n_moved(), router->n_calls() - calls_before);
  return comparison;
}

Json json_of(const Divergence& divergence) {
  return {{"positions", divergence.n_positions},       {"mean_kl", divergence.mean_kl},
          {"mean_kl_error", divergence.mean_kl_error}, {"p99_kl", divergence.p99_kl},
          {"largest_kl", divergence.largest_kl},       {"top_agreement", divergence.top_agreement}};
}

void print_text(const Comparison& comparison) {
  print("exact\n");
  print_text(comparison.exact);
  print("\nlossy\n");
  print_text(comparison.lossy);
  const Divergence& divergence = comparison.divergence;
  print("\nKL(exact || lossy), nats: mean {:.5f} +- {:.5f}, 99th percentile {:.4f}, largest {:.4f}\n",
        divergence.mean_kl, divergence.mean_kl_error, divergence.p99_kl, divergence.largest_kl);
  print("the most likely token is the same at {:.2f} % of {} positions\n", 100 * divergence.top_agreement,
        divergence.n_positions);
  print(
      "{:.2f} % of the calls went to another expert than the model's choice; {:.2f} % of the experts of a "
      "step were twins\n",
      100 * comparison.moved_share, 100 * comparison.twin_share);
}

Result<int> report_comparison(const EvalOptions& options, Session& session, const WindowPlan& plan,
                              int64_t window) {
  if (session.tiered() == nullptr || !options.model.memory.lossy()) {
    return fail(
        ErrorKind::kInvalidArgument,
        "--against exact: this is exact already; --prefer-cached or --twin make it lossy where --memory "
        "is too small for all experts");
  }
  SOLI_ASSIGN_OR_RETURN(Comparison comparison, compare_with_exact(options, session, plan));
  comparison.exact.window = comparison.lossy.window = window;
  if (comparison.divergence.n_positions == 0) {
    print_note("soli: interrupted before anything could be compared\n");
    return kExitInterrupted;
  }
  if (options.json) {
    Json json = json_of(options, session, comparison.lossy);
    json["exact"] = json_of(comparison.exact);
    json["divergence"] = json_of(comparison.divergence);
    json["moved_share"] = comparison.moved_share;
    json["twin_share"] = comparison.twin_share;
    print_json(json);
  } else {
    print_text(comparison);
  }
  return comparison.lossy.complete ? kExitDone : kExitInterrupted;
}

Result<int> report_perplexity(const EvalOptions& options, Session& session, const WindowPlan& plan,
                              int64_t window) {
  SOLI_ASSIGN_OR_RETURN(EvalResult result, measure(options, session, plan, "evaluating"));
  result.window = window;
  if (result.perplexity.n_windows == 0) {
    print_note("soli: interrupted before the first window was done\n");
    return kExitInterrupted;
  }
  if (options.json) {
    print_json(json_of(options, session, result));
  } else {
    print_text(result);
  }
  return result.complete ? kExitDone : kExitInterrupted;
}

Result<int> run_eval(const EvalOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(options.model));
  const int64_t window = options.window > 0 ? options.window : session->context_length();
  if (window < kMinWindow) {
    return fail(ErrorKind::kInvalidArgument,
                "a window of {} position scores nothing: at least {} are needed (--window, -c)", window,
                kMinWindow);
  }
  if (window > session->context_length()) {
    return fail(ErrorKind::kInvalidArgument, "--window {}: the context has room for {}", window,
                session->context_length());
  }
  SOLI_ASSIGN_OR_RETURN(const WindowPlan plan, plan_windows(options, *session, window));
  EngineOptions engine = options.model.engine;
  engine.max_sequences = options.n_parallel;
  if (options.against_exact) engine.max_logit_rows = kRowsOfDistributions;
  const int64_t n_together = std::min(options.n_parallel, static_cast<int64_t>(plan.windows.size()));
  const int64_t page_rounded = (window + kKvPagePositions - 1) / kKvPagePositions * kKvPagePositions;
  SOLI_RETURN_IF_ERROR(session->load(engine, n_together * page_rounded));
  return options.against_exact ? report_comparison(options, *session, plan, window)
                               : report_perplexity(options, *session, plan, window);
}

}  // namespace

Command add_eval(CLI::App& program) {
  CLI::App* const app = program.add_subcommand("eval", "Measure the perplexity of a model on a text");
  const auto options = std::make_shared<EvalOptions>();
  add_model_options(*app, options->model);
  add_path(*app, "--text", options->text_file, "The text")->required();
  add_integer(*app, "--window", options->window, {0, kMaxContextLength},
              "Positions of a window, BOS included; 0: the context");
  add_integer(*app, "--max-tokens", options->max_tokens, {0, std::numeric_limits<int64_t>::max()},
              "Evaluate the first N tokens only; 0: all");
  add_integer(*app, "--parallel", options->n_parallel, {1, 256}, "Windows that share a step");
  add_choice<bool>(
      *app, "--against", options->against_exact, {{"none", false}, {"exact", true}},
      "exact: measure twice, first without --prefer-cached and --twin, and tell how far apart the "
      "two are; -b 1 reads the text token by token, as an answer is written");
  app->add_flag("--json", options->json, "Print one JSON object");
  app->footer(
      "The text is cut into windows that are scored by themselves, each after BOS where the model wants one; "
      "the first\n"
      "token of a window without BOS is not scored. The standard error comes from how the windows differ.\n\n"
      "Examples:\n"
      "  soli eval model.gguf --text book.txt\n"
      "  soli eval model.gguf --text book.txt --window 512 --max-tokens 20000 --json\n"
      "  soli eval model.gguf --text book.txt --memory 9GiB --prefer-cached 1.5 --against exact --parallel 1 "
      "-b 1");
  return {app, [options] { return run_eval(*options); }};
}

}  // namespace soli::cli
