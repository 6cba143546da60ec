// soli eval: perplexity of a model on texts, and how far a lossy one is from itself.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/eval_measure.h"
#include "cli/eval_report.h"
#include "cli/eval_sweep.h"
#include "cli/flags.h"
#include "cli/output.h"
#include "cli/output_files.h"
#include "io/file_writer.h"
#include "model/steering.h"

namespace soli::cli {
namespace {

using Json = nlohmann::ordered_json;

// Rows of a step that bring their whole distribution: what is delivered and not yet looked at stays small.
constexpr int64_t kRowsOfDistributions = 8;

template <typename Figures>
Json domains_json(const std::vector<OfDomain<Figures>>& domains) {
  Json json = Json::array();
  for (const auto& [name, figures] : domains) {
    Json domain = {{"name", name}};
    domain.update(to_json(figures));
    json.push_back(std::move(domain));
  }
  return json;
}

template <typename Figures>
void report(const EvalOptions& options, Session& session, const Figures& total,
            const std::vector<OfDomain<Figures>>& domains) {
  if (options.json) {
    Json json = eval_setup_json(options, session, session.policy());
    json.update(to_json(total));
    if (!options.texts.folder.empty()) json["domains"] = domains_json(domains);
    print_json(json);
    return;
  }
  print("{}", render_text(total));
  if (!options.texts.folder.empty()) print("{}", render_text(domains));
}

Result<int> eval_perplexity(const EvalOptions& options, Session& session, EvalRuns& runs,
                            const std::vector<EvalText>& texts) {
  EvalResult total;
  std::vector<OfDomain<EvalResult>> domains;
  for (const EvalText& text : texts) {
    const std::string label = options.texts.folder.empty() ? "evaluating" : text.name;
    SOLI_ASSIGN_OR_RETURN(EvalResult result, runs.measure(text, session.policy(), label));
    total += result;
    domains.push_back({text.name, std::move(result)});
    if (!total.complete) break;
  }
  if (total.losses.empty()) {
    print_note("soli: interrupted before the first window was done\n");
    return kExitInterrupted;
  }
  report(options, session, total, domains);
  return total.complete ? kExitDone : kExitInterrupted;
}

Result<int> eval_against_exact(const EvalOptions& options, Session& session, EvalRuns& runs,
                               const std::vector<EvalText>& texts) {
  Comparison total;
  std::vector<OfDomain<Comparison>> domains;
  for (const EvalText& text : texts) {
    SOLI_ASSIGN_OR_RETURN(std::vector<Comparison> compared, runs.compare(text, {session.policy()}));
    total += compared.front();
    domains.push_back({text.name, std::move(compared.front())});
    if (!total.exact.complete || !total.lossy.complete) break;
  }
  if (total.divergence.kl.empty()) {
    print_note("soli: interrupted before anything could be compared\n");
    return kExitInterrupted;
  }
  report(options, session, total, domains);
  return total.exact.complete && total.lossy.complete ? kExitDone : kExitInterrupted;
}

Result<int> report_sweep(const EvalOptions& options, Session& session, std::vector<EvalSweepPoint> points,
                         bool is_complete) {
  std::erase_if(points, [](const EvalSweepPoint& point) { return point.figures.divergence.kl.empty(); });
  if (points.empty()) {
    print_note("soli: interrupted before anything could be compared\n");
    return kExitInterrupted;
  }
  mark_front(points);
  const Plot plot = plot_of(options.sweep, points);
  if (options.json) {
    Json json = eval_setup_json(options, session, session.policy());
    json["sweep"] = options.sweep;
    json["complete"] = is_complete;
    json["exact"] = to_json(points.front().figures.exact);
    json["points"] = to_json(points);
    print_json(json);
  } else {
    print("{}\n{}", render_text(options.sweep, points), render_text(plot));
  }
  if (!options.svg.empty()) {
    const std::string svg = render_svg({plot});
    SOLI_RETURN_IF_ERROR(write_file(options.svg, std::as_bytes(std::span(svg))));
  }
  return is_complete ? kExitDone : kExitInterrupted;
}

Result<int> eval_sweep(const EvalOptions& options, Session& session, EvalRuns& runs,
                       const std::vector<EvalText>& texts, const std::vector<SweepValue>& values) {
  std::vector<RoutingPolicy> policies;
  std::vector<EvalSweepPoint> points;
  for (const SweepValue& value : values) {
    policies.push_back(value.policy);
    points.push_back({.value = value.value, .policy = value.policy, .figures = {}, .domains = {}});
  }
  bool is_complete = true;
  for (const EvalText& text : texts) {
    SOLI_ASSIGN_OR_RETURN(std::vector<Comparison> compared, runs.compare(text, policies));
    for (size_t i = 0; i < compared.size(); ++i) {
      is_complete = is_complete && compared[i].exact.complete && compared[i].lossy.complete;
      points[i].figures += compared[i];
      points[i].domains.push_back({text.name, std::move(compared[i])});
    }
    if (!is_complete) break;
  }
  return report_sweep(options, session, std::move(points), is_complete);
}

/// The policies of a sweep; none without one. The engine gets room for them.
Result<std::vector<SweepValue>> read_sweep(const EvalOptions& options, const Session& session,
                                           EngineOptions& engine) {
  std::vector<SweepValue> values;
  if (options.sweep.empty()) return values;
  SOLI_ASSIGN_OR_RETURN(values, parse_sweep(options.sweep, session.policy()));
  for (const SweepValue& value : values) {
    const ModelSpec& spec = session.spec();
    const auto steering = Steering::create(value.policy, spec, spec.router.n_reachable());
    if (!steering) return in_context(fmt::format("--sweep {}", options.sweep), steering.error());
    make_room_for(value.policy, engine);
  }
  return values;
}

Status check_is_lossy(const EvalOptions& options, const Session& session) {
  const bool is_lossy = session.plan().tiers && options.model.memory.lossy();
  if (!options.against_exact || is_lossy || !session.policy().is_exact()) return {};
  return fail(
      ErrorKind::kInvalidArgument,
      "--against exact: this is exact already; --policy and --steer make it lossy, or --prefer-cached "
      "and --twin where --memory is too small for all experts");
}

Result<int> run_eval(const EvalOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(options.model));
  SOLI_ASSIGN_OR_RETURN(const int64_t window, window_length(options, *session));
  SOLI_RETURN_IF_ERROR(
      check_output_files(*session, {{"--svg", options.svg}}, {{"--text", options.texts.file}}));
  EngineOptions engine = options.model.engine;
  SOLI_ASSIGN_OR_RETURN(const std::vector<SweepValue> values, read_sweep(options, *session, engine));
  SOLI_ASSIGN_OR_RETURN(const std::vector<EvalText> texts, read_eval_texts(options.texts, *session, window));
  if (options.against_exact || !values.empty()) engine.max_logit_rows = kRowsOfDistributions;
  SOLI_RETURN_IF_ERROR(load_for(texts, window, options.n_parallel, engine, *session));
  SOLI_RETURN_IF_ERROR(check_is_lossy(options, *session));
  EvalRuns runs(options, *session, window);
  Result<int> status = !values.empty()         ? eval_sweep(options, *session, runs, texts, values)
                       : options.against_exact ? eval_against_exact(options, *session, runs, texts)
                                               : eval_perplexity(options, *session, runs, texts);
  SOLI_RETURN_IF_ERROR(session->finish_trace());
  return status;
}

}  // namespace

Command add_eval(CLI::App& program) {
  CLI::App* const app = program.add_subcommand("eval", "Measure the perplexity of a model on a text");
  const auto options = std::make_shared<EvalOptions>();
  add_model_options(*app, options->model);
  add_text_options(*app, *options);
  CLI::Option* const against = add_choice<bool>(
      *app, "--against", options->against_exact, {{"none", false}, {"exact", true}},
      "exact: measure twice, first without --policy, --steer, --prefer-cached and --twin, and tell how far "
      "apart the two are; -b 1 reads the text token by token, as an answer is written");
  CLI::Option* const sweep =
      app->add_option("--sweep", options->sweep,
                      "Measure against the exact answer for some values of a control of the routing policy, "
                      "such as k=1..8 or temperature=0.5,1,2")
          ->type_name("KEY=VALUES")
          ->excludes(against);
  add_path(*app, "--svg", options->svg, "Draw the sweep into a file")->needs(sweep);
  app->add_flag("--json", options->json, "Print one JSON object");
  app->footer(
      "The text is cut into windows that are scored by themselves, each after BOS where the model wants one; "
      "the first\n"
      "token of a window without BOS is not scored. The standard error comes from how the windows differ.\n\n"
      "Examples:\n"
      "  soli eval model.gguf --text book.txt\n"
      "  soli eval model.gguf --text book.txt --window 512 --max-tokens 20000 --json\n"
      "  soli eval model.gguf --data texts --policy frugal.toml --against exact\n"
      "  soli eval model.gguf --text book.txt --sweep k=1..8 --svg price.svg\n"
      "  soli eval model.gguf --text book.txt --memory 9GiB --prefer-cached 1.5 --against exact --parallel 1 "
      "-b 1");
  return {app, [options] { return run_eval(*options); }};
}

}  // namespace soli::cli
