#include "cli/interactive.h"

#include <unistd.h>

#include <utility>

#include "base/utf8.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/run_report.h"

namespace soli::cli {
namespace {

constexpr const char* kHelp =
    "Each line that you type is appended to one growing text, and the model continues it. No chat template "
    "is\n"
    "applied: a model that was trained to chat sees plain text.\n"
    "  /help     this text\n"
    "  /reset    begin a new text\n"
    "  /routing  the activation report of the last answer\n"
    "  /quit     end (also Ctrl-D)\n"
    "Ctrl-C stops an answer; what is there stays part of the text. A line that begins with / is a command: "
    "begin\n"
    "with a blank to send one.\n";

}  // namespace

Result<int> Interactive::run() {
  SOLI_ASSIGN_OR_RETURN(tokenizer_, session_.tokenizer());
  print_note("{}: {} positions. /help shows the commands, Ctrl-D ends.\n",
             printable(session_.spec().name.empty() ? session_.options().path : session_.spec().name),
             session_.engine().context_length());
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
    print("{}", kHelp);
  } else if (command == "/reset") {
    tokens_.clear();
    last_.reset();
    print("a new text begins\n");
  } else if (command == "/routing") {
    if (const Status status = show_routing(); !status) print_error(status.error());
  } else {
    print("unknown command {}; /help shows them\n", printable(command));
  }
  return true;
}

Result<std::vector<int32_t>> Interactive::with_line(const std::string& line) const {
  const bool begins = tokens_.empty();
  SOLI_ASSIGN_OR_RETURN(const std::vector<int32_t> added,
                        tokenizer_->encode(begins ? line : "\n" + line,
                                           {.add_special = begins, .parse_special = options_.parse_special}));
  std::vector<int32_t> tokens = tokens_;
  tokens.insert(tokens.end(), added.begin(), added.end());
  const auto n = static_cast<int64_t>(tokens.size());
  if (n >= session_.context_length()) {
    return fail(ErrorKind::kLimit,
                "the text has {} tokens; the context has room for {}: /reset begins a new one", n,
                session_.context_length());
  }
  return tokens;
}

Status Interactive::answer(const std::string& line) {
  SOLI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, with_line(line));
  recorder_.clear();
  const InterruptGuard interrupt(InterruptGuard::Second::kIsIgnored);
  Request request = make_request(options_, *tokenizer_, tokens);
  request.sampling.seed += static_cast<uint64_t>(n_answers_++);  // else every answer would draw alike
  SOLI_ASSIGN_OR_RETURN(Generation generation,
                        generate(session_.engine(), *tokenizer_, std::move(request), interrupt,
                                 [](std::string_view piece) { write_text(piece); }));
  write_text("\n");
  if (options_.routing) print_note("{}\n", timings_line(session_, generation));
  tokens.insert(tokens.end(), generation.tokens.begin(), generation.tokens.end());
  // An end token would make the model begin something else; the text goes on instead.
  if (generation.reason == FinishReason::kEndToken) tokens.pop_back();
  tokens_ = std::move(tokens);
  last_ = std::move(generation);
  if (options_.wants_routing()) return show_routing();
  return {};
}

Status Interactive::show_routing() {
  if (!last_) return fail(ErrorKind::kInvalidArgument, "/routing: there is no answer yet");
  SOLI_ASSIGN_OR_RETURN(const ActivationReport report, report_routing(session_, options_, recorder_, *last_));
  print("{}", render_text(report, ::isatty(STDOUT_FILENO) == 1));
  return {};
}

}  // namespace soli::cli
