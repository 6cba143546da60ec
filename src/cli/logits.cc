// soli logits: what the model says after every token, for comparison with other engines.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <span>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/generate.h"
#include "cli/output.h"
#include "cli/output_files.h"
#include "cli/session.h"
#include "io/file_writer.h"

namespace soli::cli {
namespace {

struct LogitsOptions {
  ModelOptions model;
  std::vector<int32_t> tokens;
  std::string out;
  int64_t n_greedy = 0;
};

/// Runs the request to its end; `on_event` gets the prompt's and the generated tokens.
Status for_each_event(Engine& engine, Request request, FunctionRef<Status(const StreamEvent&)> on_event) {
  SOLI_ASSIGN_OR_RETURN(const std::shared_ptr<Stream> stream, engine.submit(std::move(request)));
  while (true) {
    SOLI_ASSIGN_OR_RETURN(const StreamEvent event, next_event(engine, *stream, [] {}));
    if (event.kind == StreamEvent::Kind::kFinished) {
      if (event.error) return tl::unexpected<Error>(*event.error);
      return {};
    }
    SOLI_RETURN_IF_ERROR(on_event(event));
  }
}

Request make_request(const LogitsOptions& options, const RoutingPolicy& policy) {
  Request request;
  request.policy = policy;
  request.prompt = options.tokens;
  request.max_new_tokens = options.n_greedy;
  request.sampling.temperature = 0;  // no end tokens: they do not stop it
  request.prompt_detail = options.out.empty() ? Detail::kNone : Detail::kLogits;
  return request;
}

Status check_tokens(const LogitsOptions& options, const Session& session) {
  for (const int32_t token : options.tokens) {
    if (token >= session.spec().vocab_size) {
      return fail(ErrorKind::kInvalidArgument,
                  "--token-ids: token id {} is not in the vocabulary of {} tokens", token,
                  session.spec().vocab_size);
    }
  }
  const auto n = static_cast<int64_t>(options.tokens.size());
  if (n > session.context_length() || options.n_greedy > session.context_length() - n) {
    return fail(ErrorKind::kInvalidArgument, "{} tokens and {} to generate: the context has room for {}", n,
                options.n_greedy, session.context_length());
  }
  return {};
}

Result<int> run_logits(const LogitsOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(options.model));
  SOLI_RETURN_IF_ERROR(check_tokens(options, *session));
  EngineOptions engine = options.model.engine;
  engine.max_sequences = 1;
  if (options.out.empty()) engine.max_logit_rows = 1;
  std::optional<FileWriter> out;
  SOLI_RETURN_IF_ERROR(check_output_files(*session, {{"--out", options.out}}));
  if (!options.out.empty()) {
    SOLI_ASSIGN_OR_RETURN(out, FileWriter::create(options.out));
  }
  SOLI_RETURN_IF_ERROR(session->load(engine, static_cast<int64_t>(options.tokens.size()) + options.n_greedy));

  std::vector<int32_t> greedy;
  SOLI_RETURN_IF_ERROR(for_each_event(session->engine(), make_request(options, session->policy()),
                                      [&](const StreamEvent& event) -> Status {
                                        // Little endian, like this machine.
                                        if (event.kind == StreamEvent::Kind::kPromptToken)
                                          return out->append(std::as_bytes(std::span(event.logits)));
                                        greedy.push_back(event.token);
                                        return {};
                                      }));
  if (out) SOLI_RETURN_IF_ERROR(out->commit());
  SOLI_RETURN_IF_ERROR(session->finish_trace());
  if (options.n_greedy > 0) cli::print("{}\n", fmt::join(greedy, " "));
  return kExitDone;
}

}  // namespace

Command add_logits(CLI::App& program) {
  CLI::App* const app = program.add_subcommand("logits", "Write the logits after every token of a prompt");
  const auto options = std::make_shared<LogitsOptions>();
  add_model_options(*app, options->model);
  add_token_ids(*app, "--token-ids", options->tokens, "The prompt in token ids, taken as they are")
      ->required();
  CLI::Option* const out =
      add_path(*app, "--out", options->out, "File to write: raw float32 [tokens][vocabulary]");
  CLI::Option* const greedy =
      add_integer(*app, "--greedy", options->n_greedy, {0, kMaxContextLength},
                  "Print the N most likely tokens that follow, one after the other; end "
                  "tokens do not stop it");
  app->callback([out, greedy] {
    if (out->empty() && greedy->empty()) throw CLI::RequiredError("--out FILE or --greedy N");
  });
  app->footer(
      "Floats are little endian. On equal logits the lower id wins.\n\n"
      "Examples:\n"
      "  soli logits model.gguf --token-ids 1,15043,3186 --out logits.f32 --act f32 --kv f32\n"
      "  soli logits model.gguf --token-ids 1,15043 --greedy 16");
  return {app, [options] { return run_logits(*options); }};
}

}  // namespace soli::cli
