#include "cli/interactive.h"

#include <utility>

#include "base/utf8.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/run_report.h"

namespace soli::cli {
namespace {

constexpr const char* kTextHelp =
    "Each line that you type is appended to one growing text, and the model continues it. No chat template "
    "is\n"
    "applied: a model that was trained to chat sees plain text.\n";
constexpr const char* kChatHelp =
    "Each line that you type is a message, in the chat template of the model, and the model answers it.\n";
constexpr const char* kCommands =
    "  /help     this text\n"
    "  /reset    begin anew\n"
    "  /routing  the activation report of the last answer\n"
    "  /memory   what was read from the disk so far\n"
    "  /quit     end (also Ctrl-D)\n"
    "Ctrl-C stops an answer; what is there is kept. A line that begins with / is a command: begin\n"
    "with a blank to send one.\n";

}  // namespace

Result<int> Interactive::run() {
  SOLI_ASSIGN_OR_RETURN(tokenizer_, session_.tokenizer());
  print_note("{}: {}, {} positions. /help shows the commands, Ctrl-D ends.\n",
             printable(session_.spec().name.empty() ? session_.options().path : session_.spec().name),
             chat_ ? "chat" : "plain text", session_.engine().context_length());
  ignore_interrupts();  // between the prompt's appearance and its being edited, a Ctrl-C is still a signal
  LineEditor editor("> ");
  std::string line;
  while (true) {
    const LineEditor::Outcome outcome = editor.read_line(line);
    if (outcome == LineEditor::Outcome::kInterrupted ||
        (outcome == LineEditor::Outcome::kLine && line.empty())) {
      continue;
    }
    if (outcome == LineEditor::Outcome::kEnd) {
      print("\n");
      return kExitDone;
    }
    if (line.front() == '/') {
      if (!obey(line)) return kExitDone;
    } else if (const Status status = answer(line); !status) {
      print_error(status.error());  // the session goes on: the text is as it was before the line
    }
  }
}

bool Interactive::obey(const std::string& command) {
  if (command == "/quit" || command == "/exit") return false;
  if (command == "/help") {
    print("{}{}", chat_ ? kChatHelp : kTextHelp, kCommands);
  } else if (command == "/reset") {
    tokens_.clear();
    if (chat_) chat_->reset();
    last_.reset();
    print("a new {} begins\n", chat_ ? "chat" : "text");
  } else if (command == "/routing") {
    if (const Status status = show_routing(); !status) print_error(status.error());
  } else if (command == "/memory") {
    print("{}", memory_report_text(session_));
  } else {
    print("unknown command {}; /help shows them\n", printable(command));
  }
  return true;
}

Result<std::vector<int32_t>> Interactive::text_with(const std::string& line) const {
  const bool begins = tokens_.empty();
  SOLI_ASSIGN_OR_RETURN(const std::vector<int32_t> added,
                        tokenizer_->encode(begins ? line : "\n" + line,
                                           {.add_special = begins, .parse_special = options_.parse_special}));
  std::vector<int32_t> tokens = tokens_;
  tokens.insert(tokens.end(), added.begin(), added.end());
  return tokens;
}

Result<std::vector<int32_t>> Interactive::with_line(const std::string& line) const {
  SOLI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, chat_ ? chat_->prompt_with(line) : text_with(line));
  const auto n = static_cast<int64_t>(tokens.size());
  if (n >= session_.context_length()) {
    return fail(ErrorKind::kLimit,
                "the {} has {} tokens; the context has room for {}: /reset begins a new one",
                chat_ ? "chat" : "text", n, session_.context_length());
  }
  return tokens;
}

/// The line and its answer become part of what the next answer is made from.
void Interactive::keep(const std::string& line, std::vector<int32_t> tokens, const Generation& generation) {
  if (chat_) {
    chat_->add(line, generation.text);
    return;
  }
  tokens.insert(tokens.end(), generation.tokens.begin(), generation.tokens.end());
  // An end token would make the model begin something else; the text goes on instead.
  if (generation.reason == FinishReason::kEndToken) tokens.pop_back();
  tokens_ = std::move(tokens);
}

Status Interactive::answer(const std::string& line) {
  SOLI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, with_line(line));
  recorder_.clear();
  const InterruptGuard interrupt(InterruptGuard::Second::kIsIgnored);
  Request request = make_request(options_, session_.policy(), *tokenizer_, tokens);
  request.sampling.seed += static_cast<uint64_t>(n_answers_++);  // else every answer would draw alike
  SOLI_ASSIGN_OR_RETURN(Generation generation,
                        generate(session_.engine(), *tokenizer_, std::move(request), interrupt,
                                 [](std::string_view piece) { write_text(piece); }));
  write_text("\n");
  if (options_.routing) print_note("{}\n", timings_line(session_, generation));
  keep(line, std::move(tokens), generation);
  last_ = std::move(generation);
  if (options_.wants_routing()) return show_routing();
  return {};
}

Status Interactive::show_routing() {
  if (!last_) return fail(ErrorKind::kInvalidArgument, "/routing: there is no answer yet");
  SOLI_ASSIGN_OR_RETURN(const ActivationReport report, report_routing(session_, options_, recorder_, *last_));
  print("{}", render_text(report, may_colour_output()));
  return {};
}

}  // namespace soli::cli
