#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/run_options.h"
#include "cli/session.h"
#include "format/chat_template.h"

namespace soli::cli {

/// A conversation with a model that was trained for it: what has been said, and the template that makes a
/// prompt of it.
class Chat {
 public:
  /// With the template that the options name, or else the model's own. Fails where there is none, or where it
  /// does not parse, naming what is allowed instead: never with another template. The session must outlive
  /// the chat.
  static Result<Chat> create(Session& session, const RunOptions& options);
  /// Whether the model carries a template.
  static Result<bool> is_possible(Session& session);

  /// The tokens of the conversation with one more message of the user, up to where the assistant answers.
  /// Special tokens count as such. Exactly one BOS stands in front where the model wants one, whether or not
  /// the template writes it. Fails where the template raises an error.
  Result<std::vector<int32_t>> prompt_with(const std::string& message) const;
  /// Keeps a message and its answer.
  void add(const std::string& message, const std::string& answer);
  /// Begins anew; the system message stays.
  void reset();

 private:
  Chat(const Tokenizer& tokenizer, ChatTemplate chat_template, const RunOptions& options);

  const Tokenizer* tokenizer_;
  ChatTemplate template_;
  std::optional<std::string> system_;
  ChatInputs inputs_;
};

}  // namespace soli::cli
