// soli run: continue a text, once or in an interactive session.
#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "cli/chat.h"
#include "cli/command.h"
#include "cli/generate.h"
#include "cli/interactive.h"
#include "cli/output.h"
#include "cli/output_files.h"
#include "cli/prompt_text.h"
#include "cli/run_options.h"
#include "cli/run_report.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/text_input.h"
#include "io/file_writer.h"

namespace soli::cli {
namespace {

/// Prompt and context must fit before the weights are read.
Result<std::vector<int32_t>> encode_prompt(Session& session, const RunOptions& options,
                                           const std::string& text) {
  std::vector<int32_t> tokens;
  if (options.wants_chat()) {
    SOLI_ASSIGN_OR_RETURN(const Chat chat, Chat::create(session, options));
    SOLI_ASSIGN_OR_RETURN(tokens, chat.prompt_with(text));
  } else {
    SOLI_ASSIGN_OR_RETURN(tokens, encode_text(session, text, options.parse_special));
  }
  const auto n = static_cast<int64_t>(tokens.size());
  if (n > session.context_length()) {
    return fail(ErrorKind::kInvalidArgument, "the prompt has {} tokens; the context has room for {}", n,
                session.context_length());
  }
  return tokens;
}

/// Files are written after the text, which should not be made for nothing.
Status check_files(const RunOptions& options, const Session& session) {
  return check_output_files(session, {{"--routing-json", options.routing_json}},
                            {{"--file", options.prompt_file}, {"--template", options.template_file}});
}

/// Loads for one sequence of so many positions, of which so many may be read at once.
Status load(Session& session, int64_t n_positions, int64_t longest_prompt, RouterObserver* observer) {
  EngineOptions engine = session.options().engine;
  engine.max_sequences = 1;
  engine.max_logit_rows = 1;
  engine.hooks.observer = observer;
  return session.load(engine, n_positions, longest_prompt);
}

int64_t positions_needed(const Session& session, const RunOptions& options, int64_t n_prompt) {
  const int64_t context = session.context_length();
  if (options.max_new_tokens < 0 || options.max_new_tokens > context - n_prompt) return context;
  return n_prompt + options.max_new_tokens;
}

Result<int> run_once(const RunOptions& options, const std::string& text) {
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(options.model));
  SOLI_RETURN_IF_ERROR(check_files(options, *session));
  SOLI_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, encode_prompt(*session, options, text));
  std::optional<ActivationRecorder> recorder;
  if (options.wants_routing()) recorder.emplace();
  const auto n_prompt = static_cast<int64_t>(prompt.size());
  const int64_t n_positions = positions_needed(*session, options, n_prompt);
  SOLI_RETURN_IF_ERROR(load(*session, n_positions, n_prompt, recorder ? &*recorder : nullptr));

  const InterruptGuard interrupt(InterruptGuard::Second::kEndsProcess);
  SOLI_ASSIGN_OR_RETURN(const Tokenizer* const tokenizer, session->tokenizer());
  SOLI_ASSIGN_OR_RETURN(const Generation generation,
                        generate(session->engine(), *tokenizer,
                                 make_request(options, session->policy(), *tokenizer, std::move(prompt)),
                                 interrupt, [&](std::string_view piece) {
                                   if (!options.json) write_text(piece);
                                 }));
  if (!options.json) write_text("\n");
  SOLI_RETURN_IF_ERROR(flush_output());

  std::optional<ActivationReport> report;
  if (recorder) {
    SOLI_ASSIGN_OR_RETURN(report, report_routing(*session, options, *recorder, generation));
  }
  if (options.json) {
    print_json(run_json(*session, options, generation, options.routing ? report : std::nullopt));
  } else if (options.routing) {
    print("\n{}", render_text(*report, may_colour_output()));
  }
  if (options.model.memory.report && !options.json) print("\n{}", memory_report_text(*session));
  SOLI_RETURN_IF_ERROR(flush_output());
  print_note("{}\n", timings_line(*session, generation));
  SOLI_RETURN_IF_ERROR(session->finish_trace());
  SOLI_RETURN_IF_ERROR(session->save_records());
  return generation.reason == FinishReason::kCancelled ? kExitInterrupted : kExitDone;
}

Result<int> run_interactive(const RunOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(options.model));
  SOLI_RETURN_IF_ERROR(check_files(options, *session));
  SOLI_ASSIGN_OR_RETURN(const bool is_possible, Chat::is_possible(*session));
  std::optional<Chat> chat;
  if (options.wants_chat() || (is_possible && !options.no_template)) {
    SOLI_ASSIGN_OR_RETURN(chat, Chat::create(*session, options));
  }
  ActivationRecorder recorder;
  const int64_t context = session->context_length();
  SOLI_RETURN_IF_ERROR(load(*session, context, context, &recorder));
  SOLI_ASSIGN_OR_RETURN(const int status, Interactive(*session, options, recorder, std::move(chat)).run());
  SOLI_RETURN_IF_ERROR(session->finish_trace());
  SOLI_RETURN_IF_ERROR(session->save_records());
  return status;
}

Result<int> run(RunOptions options) {
  if (options.seed < 0) options.seed = random_seed();
  if (options.prompt) return run_once(options, *options.prompt);
  if (options.prompt_file.empty() && standard_input_is_terminal() && !options.json)
    return run_interactive(options);
  SOLI_ASSIGN_OR_RETURN(const std::string text, options.prompt_file.empty()
                                                    ? read_standard_input(kMaxPromptBytes)
                                                    : read_text(options.prompt_file, kMaxPromptBytes));
  return run_once(options, text);
}

}  // namespace

Command add_run(CLI::App& program) {
  CLI::App* const app = program.add_subcommand("run", "Continue a text, once or in an interactive session");
  const auto options = std::make_shared<RunOptions>();
  add_run_options(*app, *options);
  app->footer(
      "Without -p and -f: an interactive session on a terminal, else the prompt is read from standard "
      "input.\n"
      "A session with a model that carries a chat template is a chat; a prompt is a message with --chat.\n"
      "The text goes to standard output, timings go to standard error. Ctrl-C ends the answer.\n\n"
      "Examples:\n"
      "  soli run model.gguf -p \"Once upon a time\" -n 64\n"
      "  soli run model.gguf -f prompt.txt --temp 0 --json\n"
      "  soli run model.gguf -p \"Why is the sea salty?\" --chat --system \"Answer in one sentence.\"\n"
      "  soli run model.gguf -p \"The sea\" -n 32 --routing --routing-json choices.json\n"
      "  soli run model.gguf -p \"The sea\" -n 32 --trace sea.sqlite\n"
      "  soli run model.gguf -p \"The sea\" --steer k=4 --steer temperature=0.7\n"
      "  soli run model.gguf --memory 12GiB -c 4096\n"
      "  soli run larger-than-memory.gguf -p \"The sea\" -n 64 --memory 10GiB --memory-report");
  return {app, [options] { return run(*options); }};
}

}  // namespace soli::cli
