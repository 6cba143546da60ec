// soli diagnose: what each expert does to each token of a text.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "base/utf8.h"
#include "cli/command.h"
#include "cli/diagnose_options.h"
#include "cli/generate.h"
#include "cli/output.h"
#include "cli/output_files.h"
#include "cli/progress.h"
#include "cli/prompt_text.h"
#include "cli/session.h"
#include "cli/text_input.h"
#include "format/detokenizer.h"

namespace soli::cli {
namespace {

Result<std::string> diagnosed_text(const DiagnoseOptions& options) {
  if (options.prompt) return *options.prompt;
  if (!options.prompt_file.empty()) return read_text(options.prompt_file, kMaxPromptBytes);
  return read_standard_input(kMaxPromptBytes);
}

/// What is diagnosed.
struct DiagnosedText {
  std::vector<int32_t> prompt;  // cut to what may be diagnosed
  int64_t n_given = 0;          // its tokens before that
  int64_t n_generated = 0;      // to generate at most
};

Result<DiagnosedText> text_tokens(const DiagnoseOptions& options, Session& session) {
  SOLI_ASSIGN_OR_RETURN(const std::string text, diagnosed_text(options));
  DiagnosedText result;
  SOLI_ASSIGN_OR_RETURN(result.prompt, encode_text(session, text, options.parse_special));
  result.n_given = static_cast<int64_t>(result.prompt.size());
  const int64_t most = std::min(options.max_tokens, session.context_length());
  const int64_t n_prompt = std::min(result.n_given, most);
  result.prompt.resize(static_cast<size_t>(n_prompt));
  result.n_generated = std::min(options.n_generated, most - n_prompt);
  if (n_prompt < result.n_given)
    print_note("soli: the text has {} tokens, and is cut to {} (--max-tokens, -c)\n", result.n_given,
               n_prompt);
  if (result.n_generated < options.n_generated) {
    print_note("soli: {} tokens are generated at most, since {} are diagnosed (--max-tokens, -c)\n",
               result.n_generated, most);
  }
  return result;
}

/// The layer to list. Fails for one that the model does not have.
Result<int64_t> listed_layer(const DiagnoseOptions& options, const ModelSpec& spec) {
  if (options.layer >= spec.n_layers) {
    return fail(ErrorKind::kInvalidArgument, "--layer {}: the model has layers 0 to {}", options.layer,
                spec.n_layers - 1);
  }
  if (options.layer >= 0) return options.layer;
  int64_t layer = spec.n_layers - 1;
  while (spec.is_moe() && layer > 0 && !spec.is_moe_layer(layer)) --layer;
  return layer;
}

/// Before the work, as far as it can be known.
Status check_position(const DiagnoseOptions& options, int64_t n_tokens) {
  if (options.position < n_tokens) return {};
  return fail(ErrorKind::kInvalidArgument, "--token {}: the tokens have positions 0 to {}", options.position,
              n_tokens - 1);
}

DiagnosisRecorder::Options recorder_options(const DiagnoseOptions& options, const Session& session,
                                            const DiagnosedText& text) {
  EngineOptions engine = options.model.engine;
  make_room_for(session.policy(), engine);
  return {.activations = engine.activations,
          .max_tokens = static_cast<int64_t>(text.prompt.size()) + text.n_generated,
          .max_experts_per_token = engine.max_experts_per_token,
          .n_top = options.n_top,
          .active_threshold = options.active_above};
}

/// For one sequence, with room for what the recorder takes.
Status load_session(const DiagnoseOptions& options, const DiagnosedText& text,
                    const DiagnosisRecorder::Options& recorder, Session& session) {
  EngineOptions engine = options.model.engine;
  engine.max_sequences = 1;
  engine.max_logit_rows = 1;
  session.set_further_bytes(DiagnosisRecorder::bytes_needed(session.spec(), recorder));
  const int64_t n_positions = std::min(recorder.max_tokens + 1, session.context_length());
  return session.load(engine, n_positions, static_cast<int64_t>(text.prompt.size()));
}

/// Runs the text through the model. The last token that is generated does not go through it, so that one more
/// is asked for.
Result<FinishReason> run_text(const DiagnosedText& text, DiagnosisRecorder& recorder, Session& session) {
  SOLI_ASSIGN_OR_RETURN(const Tokenizer* const tokenizer, session.tokenizer());
  Request request;
  request.prompt = text.prompt;
  request.max_new_tokens = text.n_generated > 0 ? text.n_generated + 1 : 0;
  request.end_tokens = tokenizer->end_of_generation_ids();
  request.sampling.temperature = 0;
  request.policy = session.policy();
  session.engine().set_hooks({.ffn = &recorder});
  const InterruptGuard interrupt(InterruptGuard::Second::kEndsProcess);
  const auto generation =
      generate(session.engine(), *tokenizer, std::move(request), interrupt, [](std::string_view) {});
  session.engine().set_hooks({});
  if (!generation) return tl::unexpected<Error>(generation.error());
  return generation->reason;
}

/// The text of each token, as far as it ends within it.
std::vector<std::string> texts_of_tokens(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens) {
  Detokenizer detokenizer(tokenizer, {.render_special = true, .begins_text = true});
  std::vector<std::string> texts;
  for (const int32_t token : tokens) texts.push_back(detokenizer.push(token));
  if (!texts.empty()) texts.back() += detokenizer.flush();
  return texts;
}

/// A token that begins a text, and is no part of it.
bool begins_with_bos(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens) {
  return tokenizer.adds_bos() && tokenizer.bos() && tokens.front() == *tokenizer.bos();
}

Result<DiagnosisReport> make_diagnosis(const DiagnoseOptions& options, const DiagnosedText& text,
                                       DiagnosisRecorder&& recorder, Session& session) {
  SOLI_ASSIGN_OR_RETURN(const Tokenizer* const tokenizer, session.tokenizer());
  const ModelSpec& spec = session.spec();
  DiagnosisReport report;
  report.model = printable(spec.name.empty() ? spec.architecture : spec.name);
  for (int64_t layer = 0; layer < spec.n_layers; ++layer)
    report.has_experts.push_back(spec.is_moe_layer(layer));
  report.n_experts = spec.router.n_experts;
  report.experts_per_token = spec.router.experts_per_token;
  report.n_given = text.n_given;
  report.active_threshold = options.active_above;
  report.seed = static_cast<uint64_t>(options.seed);
  report.tokens = std::move(recorder).finish();
  report.n_prompt = std::min(std::ssize(text.prompt), report.tokens.n_tokens());
  report.texts = texts_of_tokens(*tokenizer, report.tokens.tokens);
  for (const SaidToken& said : report.tokens.said) {
    std::string& name = report.names[said.token];
    if (name.empty()) name = replace_invalid_utf8(tokenizer->piece(said.token, true));
  }
  if (report.tokens.n_tokens() == 0) return report;
  const int64_t first = begins_with_bos(*tokenizer, report.tokens.tokens) ? 1 : 0;
  report.changes = find_change_points(routed_text(report.tokens, report.n_experts, first), report.seed);
  for (ChangePoint& change : report.changes) change.at += first;
  return report;
}

Status show_diagnosis(const DiagnoseOptions& options, int64_t layer, const DiagnosisReport& report) {
  // First, since whoever reads the output may not read it to its end.
  if (!options.html.empty()) SOLI_RETURN_IF_ERROR(write_html(report, layer, options.html));
  if (options.json) {
    write_json(report, [](std::string_view part) { write_output(part); });
  } else {
    DiagnosisView view = {.layer = layer, .colour = may_colour_output(), .colour_by = options.colour_by};
    if (options.position >= 0) view.position = options.position;
    write_output(render_text(report, view));
  }
  return flush_output();
}

Result<int> run_diagnose(const DiagnoseOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(options.model));
  SOLI_ASSIGN_OR_RETURN(const int64_t layer, listed_layer(options, session->spec()));
  SOLI_RETURN_IF_ERROR(
      check_output_files(*session, {{"--html", options.html}}, {{"--file", options.prompt_file}}));
  SOLI_ASSIGN_OR_RETURN(const DiagnosedText text, text_tokens(options, *session));
  SOLI_RETURN_IF_ERROR(check_position(options, std::ssize(text.prompt) + text.n_generated));
  DiagnosisRecorder::Options recording = recorder_options(options, *session, text);
  SOLI_RETURN_IF_ERROR(load_session(options, text, recording, *session));

  ProgressLine progress("diagnosing");
  const int64_t n_layers = recording.max_tokens * session->spec().n_layers;
  recording.on_progress = [&](int64_t done) { progress.show(done, n_layers, "layers of tokens"); };
  DiagnosisRecorder recorder(session->model(), recording);
  SOLI_ASSIGN_OR_RETURN(const FinishReason reason, run_text(text, recorder, *session));
  SOLI_RETURN_IF_ERROR(session->finish_trace());
  SOLI_ASSIGN_OR_RETURN(const DiagnosisReport report,
                        make_diagnosis(options, text, std::move(recorder), *session));
  const bool interrupted = reason == FinishReason::kCancelled;
  if (interrupted && report.tokens.n_tokens() == 0) {
    print_note("soli: interrupted before the first token was done\n");
    return kExitInterrupted;
  }
  SOLI_RETURN_IF_ERROR(check_position(options, report.tokens.n_tokens()));
  SOLI_RETURN_IF_ERROR(show_diagnosis(options, layer, report));
  if (interrupted) print_note("soli: interrupted: these are the tokens that were done\n");
  return interrupted ? kExitInterrupted : kExitDone;
}

}  // namespace

Command add_diagnose(CLI::App& program) {
  CLI::App* const app =
      program.add_subcommand("diagnose", "Show what each expert does to each token of a text");
  const auto options = std::make_shared<DiagnoseOptions>();
  add_diagnose_options(*app, *options);
  app->footer(
      "Without -p and -f the text is read from standard input. docs/diagnosing.md has the definitions.\n\n"
      "Examples:\n"
      "  soli diagnose model.gguf -p \"Once upon a time\" -n 16\n"
      "  soli diagnose model.gguf -p \"Once upon a time\" --token 3\n"
      "  soli diagnose model.gguf -f text.txt --max-tokens 512 --colour-by segments --html text.html\n"
      "  soli diagnose model.gguf -f text.txt --top 0 --json");
  return {app, [options] { return run_diagnose(*options); }};
}

}  // namespace soli::cli
