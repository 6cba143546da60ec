#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/chat.h"
#include "cli/generate.h"
#include "cli/run_options.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "observe/activation_recorder.h"

namespace soli::cli {

/// A session on a terminal. In a chat each line that is typed is a message, which the model answers. Without
/// one there is one growing text: each line is appended, and the model continues; nothing is added around the
/// lines but the newline between an answer and the next line. Ctrl-C stops an answer, Ctrl-D ends the
/// session.
class Interactive {
 public:
  /// All are borrowed; the session is loaded, and its engine reports to the recorder.
  Interactive(Session& session, const RunOptions& options, ActivationRecorder& recorder,
              std::optional<Chat> chat)
      : session_(session), options_(options), recorder_(recorder), chat_(std::move(chat)) {}

  Result<int> run();

 private:
  bool obey(const std::string& command);  // false: the session ends
  Status answer(const std::string& line);
  Result<std::vector<int32_t>> with_line(const std::string& line) const;
  Result<std::vector<int32_t>> text_with(const std::string& line) const;
  void keep(const std::string& line, std::vector<int32_t> tokens, const Generation& generation);
  Status show_routing();

  Session& session_;
  const RunOptions& options_;
  ActivationRecorder& recorder_;
  const Tokenizer* tokenizer_ = nullptr;
  std::optional<Chat> chat_;
  std::vector<int32_t> tokens_;  // of the text so far, where it is no chat
  std::optional<Generation> last_;
  int64_t n_answers_ = 0;
};

}  // namespace soli::cli
