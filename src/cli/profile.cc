// soli profile: how a model routes labelled texts, domain by domain and layer by layer.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <limits>
#include <memory>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/output_files.h"
#include "cli/profile_options.h"
#include "cli/profile_run.h"
#include "cli/progress.h"
#include "cli/workbench.h"
#include "io/file.h"
#include "io/file_writer.h"
#include "model/policy_text.h"
#include "observe/profile_file.h"
#include "observe/profile_report.h"

namespace soli::cli {
namespace {

constexpr int64_t kMinProfileWindow = 2;

Result<int64_t> window_of(const ProfileOptions& options, const Session& session) {
  const int64_t context = session.context_length();
  const int64_t window = options.window > 0 ? options.window : std::min(kProfileWindow, context);
  if (window < kMinProfileWindow || window > context) {
    return fail(ErrorKind::kInvalidArgument,
                "--window {}: from {} to {} positions are allowed (-c: the context)", window,
                kMinProfileWindow, context);
  }
  return window;
}

Result<RoutingProfile> read_profile_file(const std::string& path) {
  SOLI_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxProfileFileBytes));
  Result<RoutingProfile> profile = parse_profile(text);
  if (!profile) return in_context(path, std::move(profile).error());
  return profile;
}

/// What was read before, with --resume, or nothing yet.
Result<RoutingProfile> beginning(const ProfileOptions& options, const Session& session,
                                 const std::vector<EvalText>& texts, int64_t window) {
  RoutingProfile fresh = empty_profile(session.spec(), texts);
  fresh.window = window;
  fresh.max_tokens = options.tokens_of_domain();
  fresh.policy = policy_json(session.policy()).dump();
  std::error_code unknown;
  if (!options.resume || !std::filesystem::exists(options.save, unknown)) return fresh;
  SOLI_ASSIGN_OR_RETURN(RoutingProfile saved, read_profile_file(options.save));
  if (const Status same = check_can_resume(saved, fresh); !same)
    return in_context(fmt::format("--resume: {}", options.save), same.error());
  return saved;
}

/// "2 min 5 s left".
std::string time_left(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  return whole >= 60 ? fmt::format("{} min {} s left", whole / 60, whole % 60)
                     : fmt::format("{} s left", whole);
}

enum class ProfileEnd { kComplete, kOutOfTime, kInterrupted };

/// Reads what `profile` lacks, to the end, for three minutes, or until Ctrl-C.
Result<ProfileEnd> read_windows(const ProfileOptions& options, Session& session,
                                const std::vector<EvalText>& texts, RoutingProfile& profile) {
  SOLI_ASSIGN_OR_RETURN(const Tokenizer* const tokenizer, session.tokenizer());
  const InterruptGuard interrupt(InterruptGuard::Second::kEndsProcess);
  ProgressLine progress("profiling");
  const Stopwatch watch;
  const auto is_out_of_time = [&] { return options.three_minutes && watch.seconds() >= kProfileSeconds; };
  ProfileRun run = {.n_parallel = options.n_parallel, .policy = session.policy()};
  run.texts_begin_with_bos = tokenizer->adds_bos() && tokenizer->bos();
  std::vector<TraceWindow> windows;
  run.windows = &windows;
  run.on_progress = [&](int64_t done, int64_t total) {
    const double seconds = watch.seconds();
    double left =
        seconds * static_cast<double>(total - done) / static_cast<double>(std::max<int64_t>(done, 1));
    if (options.three_minutes) left = std::min(left, kProfileSeconds - seconds);
    progress.show(done, total, done > 0 ? time_left(std::max(0.0, left)) : "");
    return !interrupt.interrupted() && !is_out_of_time();
  };
  SOLI_ASSIGN_OR_RETURN(const bool complete, run_profile_windows(session.engine(), texts, run, profile));
  session.label_trace(std::move(windows));
  if (complete) return ProfileEnd::kComplete;
  return interrupt.interrupted() ? ProfileEnd::kInterrupted : ProfileEnd::kOutOfTime;
}

Status write_text_file(const std::string& path, const std::string& text) {
  return write_file(path, std::as_bytes(std::span(text)));
}

ProfileSource source_of(const ProfileOptions& options, const RoutingProfile& profile, ProfileEnd end) {
  return {.model_file = options.model.path,
          .data = options.folder,
          .policy = profile.policy,
          .is_complete = end == ProfileEnd::kComplete};
}

Result<int> report_profile(const ProfileOptions& options, RoutingProfile profile, const RoutingProfile* saved,
                           ProfileEnd end) {
  const int status = end == ProfileEnd::kInterrupted ? kExitInterrupted : kExitDone;
  if (!options.save.empty()) SOLI_RETURN_IF_ERROR(write_text_file(options.save, profile_to_text(profile)));
  std::erase_if(profile.domains, [](const DomainCounts& domain) { return domain.n_tokens() == 0; });
  if (profile.domains.empty()) {
    print_note("soli: stopped before the first window was done\n");
    return status;
  }
  const ProfileReport report = make_profile_report(profile, saved, static_cast<uint64_t>(options.seed));
  if (!options.out_csv.empty()) SOLI_RETURN_IF_ERROR(write_text_file(options.out_csv, to_csv(report)));
  const ProfileSource source = source_of(options, profile, end);
  if (!options.html.empty()) SOLI_RETURN_IF_ERROR(write_text_file(options.html, render_html(report, source)));
  if (options.json) {
    print_json(to_json(report, source));
  } else {
    print("{}", render_text(report, options.layers));
  }
  if (end == ProfileEnd::kInterrupted) print_note("soli: interrupted: this is what was read so far\n");
  if (end == ProfileEnd::kOutOfTime) print_note("soli: the three minutes are over: this is what was read\n");
  return status;
}

/// The texts, and what drift is measured from.
std::vector<NamedFile> files_that_are_read(const ProfileOptions& options) {
  std::vector<NamedFile> files = {{"--against", options.against}};
  std::error_code unknown;  // read_eval_texts() tells
  for (const auto& entry : std::filesystem::directory_iterator(options.folder, unknown))
    files.push_back({"--data", entry.path().string()});
  return files;
}

Result<int> run_profile(const ProfileOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(options.model));
  if (!session->spec().is_moe())
    return fail(ErrorKind::kUnsupported, "{}: is a dense model; there is no routing to profile",
                options.model.path);
  SOLI_ASSIGN_OR_RETURN(const int64_t window, window_of(options, *session));
  SOLI_RETURN_IF_ERROR(check_output_files(
      *session, {{"--html", options.html}, {"--out-csv", options.out_csv}, {"--save", options.save}},
      files_that_are_read(options)));
  std::optional<RoutingProfile> saved;
  if (!options.against.empty()) {
    SOLI_ASSIGN_OR_RETURN(saved, read_profile_file(options.against));
  }
  SOLI_ASSIGN_OR_RETURN(const std::vector<EvalText> texts,
                        read_eval_texts({"", options.folder, options.tokens_of_domain()}, *session, window));
  SOLI_ASSIGN_OR_RETURN(RoutingProfile profile, beginning(options, *session, texts, window));
  if (saved) {
    const Status fits = check_comparable(saved->shape, profile.shape);
    if (!fits) return in_context(fmt::format("--against {}", options.against), fits.error());
  }
  SOLI_RETURN_IF_ERROR(load_for(texts, window, options.n_parallel, options.model.engine, *session));
  SOLI_ASSIGN_OR_RETURN(const ProfileEnd end, read_windows(options, *session, texts, profile));
  SOLI_RETURN_IF_ERROR(session->finish_trace());
  return report_profile(options, std::move(profile), saved ? &*saved : nullptr, end);
}

void add_profile_files(CLI::App& app, ProfileOptions& options) {
  add_path(app, "--html", options.html,
           "Write a page of heat maps, curves and tables, which needs nothing else");
  add_path(app, "--out-csv", options.out_csv, "Write a line of figures per domain and layer");
  CLI::Option* const save =
      add_path(app, "--save", options.save, "Write the counts, as JSON, for --resume and --against");
  app.add_flag("--resume", options.resume, "Go on with what the file of --save has, if it is there")
      ->needs(save);
  add_path(app, "--against", options.against, "Tell the drift from a profile that was saved");
}

}  // namespace

Command add_profile(CLI::App& program) {
  CLI::App* const app = program.add_subcommand("profile", "Tell how a model routes texts of several domains");
  const auto options = std::make_shared<ProfileOptions>();
  add_model_options(*app, options->model);
  add_path(
      *app, "--data", options->folder,
      "A folder of texts NAME.txt or NAME.jsonl (\"text\" or \"prompt\" of each line), one for each domain")
      ->type_name("DIR")
      ->required();
  CLI::Option* const tokens =
      add_integer(*app, "--tokens", options->max_tokens, {0, std::numeric_limits<int64_t>::max()},
                  "Read the first N tokens of a domain only; 0: all")
          ->default_str(fmt::to_string(kProfileTokens));
  app->add_flag("--three-minute", options->three_minutes,
                "Read for three minutes, without --tokens as much of each domain as there is time for");
  add_integer(*app, "--window", options->window, {0, kMaxContextLength},
              fmt::format("Positions of a window, BOS included; 0: {}, or the context", kProfileWindow));
  add_integer(*app, "--parallel", options->n_parallel, {1, 256}, "Windows that share a step");
  add_integer(*app, "--seed", options->seed, {0, std::numeric_limits<int64_t>::max()},
              "Seed of bootstrap and permutations");
  app->add_flag("--layers", options->layers, "Show every layer, too");
  app->add_flag("--json", options->json, "Print one JSON object, with every layer");
  add_profile_files(*app, *options);
  app->callback([options, tokens] { options->max_tokens_given = !tokens->empty(); });
  app->footer(
      "Texts are cut into windows that are read by themselves. docs/profiling.md has the formulas. Ctrl-C "
      "shows "
      "what was read\nso far.\n\n"
      "Examples:\n"
      "  soli profile model.gguf --data texts\n"
      "  soli profile model.gguf --data texts --html profile.html\n"
      "  soli profile model.gguf --data texts --three-minute --layers --out-csv profile.csv\n"
      "  soli profile model.gguf --data texts --tokens 100000 --save profile.json --resume\n"
      "  soli profile tuned.gguf --data texts --against profile.json --json");
  return {app, [options] { return run_profile(*options); }};
}

}  // namespace soli::cli
