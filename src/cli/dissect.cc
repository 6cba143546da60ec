// soli dissect: what each domain loses without an expert, or with nothing but that expert.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/dissect_report.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/output_files.h"
#include "cli/progress.h"
#include "cli/workbench.h"
#include "io/file_writer.h"
#include "model/steering.h"

namespace soli::cli {
namespace {

// Several windows in a short text, since what is certain comes from how they differ.
constexpr int64_t kUsualWindow = 256;

struct DissectOptions {
  EvalOptions eval;
  DissectMode mode = DissectMode::kWithout;
  bool over_all_layers = false;
  double tolerance = 0.001;
  std::string csv;  // a file to write, or ""
};

/// The experts, each with the policy that dissects it, which the model can carry out.
Result<std::vector<RoutingPolicy>> dissecting_policies(const DissectOptions& options, const Session& session,
                                                       const std::vector<DissectTarget>& targets) {
  const ModelSpec& spec = session.spec();
  if (targets.empty()) {
    return fail(ErrorKind::kInvalidArgument, "{}: the model has no layer with experts to dissect",
                options.eval.model.path);
  }
  std::vector<RoutingPolicy> policies;
  for (const DissectTarget& target : targets) {
    policies.push_back(dissecting_policy(session.policy(), spec, target, options.mode));
    const auto steering = Steering::create(policies.back(), spec, spec.router.n_reachable());
    if (!steering) return in_context(fmt::format("expert {}", target.expert), steering.error());
  }
  return policies;
}

int64_t calls_of(const DissectTarget& target, const EvalResult& exact) {
  int64_t n_calls = 0;
  for (size_t layer = 0; layer < exact.calls.size(); ++layer) {
    if (exact.calls[layer].empty() || (target.layer && *target.layer != static_cast<int64_t>(layer)))
      continue;
    n_calls += exact.calls[layer][static_cast<size_t>(target.expert)];
  }
  return n_calls;
}

/// "code_cpp, expert 12 of 64, 95 s left": of this text, by what its runs took so far.
std::string run_label(const EvalText& text, size_t i, size_t n, double seconds) {
  const double left = i > 0 ? seconds / static_cast<double>(i) * static_cast<double>(n - i) : 0;
  return fmt::format("{}, expert {} of {}{}", text.name, i + 1, n,
                     i > 0 ? fmt::format(", {:.0f} s left", left) : "");
}

/// One domain. False where it was interrupted.
Result<bool> dissect_text(const EvalText& text, const std::vector<RoutingPolicy>& policies, Session& session,
                          EvalRuns& runs, Dissection& dissection) {
  SOLI_ASSIGN_OR_RETURN(EvalResult exact, runs.measure(text, session.policy(), text.name + ", as it is"));
  if (!exact.complete) return false;
  const Stopwatch watch;
  for (size_t i = 0; i < policies.size(); ++i) {
    SOLI_ASSIGN_OR_RETURN(
        const EvalResult result,
        runs.measure(text, policies[i], run_label(text, i, policies.size(), watch.seconds())));
    if (!result.complete) return false;
    DissectedExpert& expert = dissection.experts[i];
    expert.domains.push_back(
        {.n_calls = calls_of(expert.target, exact), .change = loss_change(exact.losses, result.losses)});
  }
  dissection.exact.push_back({text.name, std::move(exact)});
  return true;
}

/// A domain that was begun and not finished is left out.
void drop_unfinished_domain(Dissection& dissection) {
  for (DissectedExpert& expert : dissection.experts) expert.domains.resize(dissection.exact.size());
}

Status report(const DissectOptions& options, Session& session, const Dissection& dissection) {
  if (options.eval.json) {
    nlohmann::ordered_json json = eval_setup_json(options.eval, session, session.policy());
    json.update(to_json(dissection));
    print_json(json);
  } else {
    print("{}", render_text(dissection));
  }
  if (options.csv.empty()) return {};
  const std::string csv = render_csv(dissection);
  return write_file(options.csv, std::as_bytes(std::span(csv)));
}

Result<int> run_dissect(const DissectOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(options.eval.model));
  SOLI_ASSIGN_OR_RETURN(const int64_t window, window_length(options.eval, *session, kUsualWindow));
  SOLI_RETURN_IF_ERROR(
      check_output_files(*session, {{"--csv", options.csv}}, {{"--text", options.eval.texts.file}}));
  Dissection dissection = {
      .mode = options.mode, .over_all_layers = options.over_all_layers, .tolerance = options.tolerance};
  const std::vector<DissectTarget> targets = dissect_targets(session->spec(), options.over_all_layers);
  SOLI_ASSIGN_OR_RETURN(const std::vector<RoutingPolicy> policies,
                        dissecting_policies(options, *session, targets));
  for (const DissectTarget& target : targets) dissection.experts.push_back({.target = target});
  SOLI_ASSIGN_OR_RETURN(const std::vector<EvalText> texts,
                        read_eval_texts(options.eval.texts, *session, window));
  SOLI_RETURN_IF_ERROR(load_for(texts, window, options.eval.n_parallel, options.eval.model.engine, *session));

  EvalRuns runs(options.eval, *session, window);
  for (const EvalText& text : texts) {
    SOLI_ASSIGN_OR_RETURN(dissection.complete, dissect_text(text, policies, *session, runs, dissection));
    if (!dissection.complete) break;
  }
  SOLI_RETURN_IF_ERROR(session->finish_trace());
  drop_unfinished_domain(dissection);
  if (dissection.exact.empty()) {
    print_note("soli: interrupted before the first domain was done\n");
    return kExitInterrupted;
  }
  SOLI_RETURN_IF_ERROR(report(options, *session, dissection));
  return dissection.complete ? kExitDone : kExitInterrupted;
}

}  // namespace

Command add_dissect(CLI::App& program) {
  CLI::App* const app = program.add_subcommand("dissect", "Measure what texts lose without each expert");
  const auto options = std::make_shared<DissectOptions>();
  add_model_options(*app, options->eval.model);
  options->eval.texts.max_tokens = 2048;
  add_text_options(*app, options->eval, fmt::format("{}, or the context", kUsualWindow));
  add_choice<DissectMode>(*app, "--mode", options->mode,
                          {{"without", DissectMode::kWithout}, {"only", DissectMode::kOnly}},
                          "without: the expert is never chosen; only: no other one is");
  add_choice<bool>(*app, "--over", options->over_all_layers, {{"layer", false}, {"all", true}},
                   "layer: one expert of one layer at a time; all: the experts of one number in all layers");
  add_number(*app, "--tolerance", options->tolerance, {0, 100},
             "Nats per token that an expert may be worth which nobody misses");
  add_path(*app, "--csv", options->csv, "Write a line for each domain and expert into a file");
  app->add_flag("--json", options->eval.json, "Print one JSON object");
  app->footer(
      "Each text is evaluated once as the model is and once for each expert. An expert counts as needed, or "
      "as "
      "missed by nobody,\nwhere that is certain to 95 % over all experts and domains together, from how the "
      "windows differ.\n\n"
      "Examples:\n"
      "  soli dissect model.gguf --data texts\n"
      "  soli dissect model.gguf --data texts --over all --mode only\n"
      "  soli dissect model.gguf --text book.txt --max-tokens 20000 --csv losses.csv");
  return {app, [options] { return run_dissect(*options); }};
}

}  // namespace soli::cli
