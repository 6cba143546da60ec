// soli eval: perplexity of a model on a text.
#include <CLI/CLI.hpp>
#include <chrono>
#include <limits>
#include <memory>

#include "cli/command.h"
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
  bool json = false;
};

struct EvalResult {
  Perplexity perplexity;
  int64_t window = 0;
  double seconds = 0;
  bool complete = false;

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

Result<EvalResult> measure(const EvalOptions& options, Session& session, const WindowPlan& plan) {
  using Clock = std::chrono::steady_clock;
  const InterruptGuard interrupt(InterruptGuard::Second::kEndsProcess);
  ProgressLine progress("evaluating");
  const Clock::time_point begin = Clock::now();
  SOLI_ASSIGN_OR_RETURN(
      const std::vector<WindowLoss> losses,
      evaluate(session.engine(), plan, options.n_parallel,
               [&](int64_t n_scored, const std::vector<WindowLoss>& done) {
                 const std::string so_far =
                     done.empty() ? "" : fmt::format("perplexity so far {:.3f}", combine(done).perplexity());
                 progress.show(n_scored, plan.n_scored, so_far);
                 return !interrupt.interrupted();
               }));
  return EvalResult{.perplexity = combine(losses),
                    .seconds = std::chrono::duration<double>(Clock::now() - begin).count(),
                    .complete = losses.size() == plan.windows.size()};
}

nlohmann::ordered_json json_of(const EvalOptions& options, Session& session, const EvalResult& result) {
  using Json = nlohmann::ordered_json;
  const Perplexity& perplexity = result.perplexity;
  const auto optional = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  return {{"model", options.model.path},
          {"text", options.text_file},
          {"tokens", perplexity.n_tokens},
          {"windows", perplexity.n_windows},
          {"window", result.window},
          {"complete", result.complete},
          {"nats_per_token", perplexity.nats_per_token},
          {"nats_per_token_error", optional(perplexity.nats_error)},
          {"perplexity", perplexity.perplexity()},
          {"perplexity_error", optional(perplexity.perplexity_error())},
          {"seconds", result.seconds},
          {"tokens_per_second", result.tokens_per_second()},
          {"act", name_of(session.options().engine.activations)},
          {"kv", name_of(session.options().engine.kv_type)},
          {"peak_resident_bytes", peak_resident_bytes()}};
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
  if (!perplexity.nats_error) print("one window only: no standard error\n");
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
  const int64_t n_together = std::min(options.n_parallel, static_cast<int64_t>(plan.windows.size()));
  const int64_t page_rounded = (window + kKvPagePositions - 1) / kKvPagePositions * kKvPagePositions;
  SOLI_RETURN_IF_ERROR(session->load(engine, n_together * page_rounded));
  SOLI_ASSIGN_OR_RETURN(EvalResult result, measure(options, *session, plan));
  result.window = window;
  if (result.perplexity.n_windows == 0) {
    print_note("soli: interrupted before the first window was done\n");
    return kExitInterrupted;
  }
  if (options.json) {
    print_json(json_of(options, *session, result));
  } else {
    print_text(result);
  }
  return result.complete ? kExitDone : kExitInterrupted;
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
  app->add_flag("--json", options->json, "Print one JSON object");
  app->footer(
      "The text is cut into windows that are scored by themselves, each after BOS where the model wants one; "
      "the first\n"
      "token of a window without BOS is not scored. The standard error comes from how the windows differ.\n\n"
      "Examples:\n"
      "  soli eval model.gguf --text book.txt\n"
      "  soli eval model.gguf --text book.txt --window 512 --max-tokens 20000 --json");
  return {app, [options] { return run_eval(*options); }};
}

}  // namespace soli::cli
