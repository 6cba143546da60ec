#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/generate.h"
#include "cli/run_options.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "observe/activation_recorder.h"

namespace soli::cli {

/// A session on a terminal over one growing text: each line that is typed is appended, and the model
/// continues. Nothing is added around the lines but the newline between an answer and the next line: no chat
/// template is applied. Ctrl-C stops an answer, Ctrl-D ends the session.
class Interactive {
 public:
  /// All are borrowed; the session is loaded, and its engine reports to the recorder.
  Interactive(Session& session, const RunOptions& options, ActivationRecorder& recorder)
      : session_(session), options_(options), recorder_(recorder) {}

  Result<int> run();

 private:
  bool obey(const std::string& command);  // false: the session ends
  Status answer(const std::string& line);
  Result<std::vector<int32_t>> with_line(const std::string& line) const;
  Status show_routing();

  Session& session_;
  const RunOptions& options_;
  ActivationRecorder& recorder_;
  const Tokenizer* tokenizer_ = nullptr;
  std::vector<int32_t> tokens_;  // of the text so far
  std::optional<Generation> last_;
  int64_t n_answers_ = 0;
};

}  // namespace soli::cli
