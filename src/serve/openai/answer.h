#pragma once

// Answers: events of the engine to chunks of a stream, and to the whole answer. Pure, one thread at a time.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "serve/openai/api_error.h"
#include "serve/openai/job.h"
#include "serve/openai/served_model.h"

namespace soli::openai {

struct Usage {
  int64_t prompt_tokens = 0;      // of every prompt, once
  int64_t cached_tokens = 0;      // of those, that came out of the prefix cache
  int64_t completion_tokens = 0;  // of every choice, its end token included
};

/// The answer to one TextJob.
///
///   Answer answer(model, job, "chatcmpl-1", now);
///   std::vector<std::string> payloads;
///   if (!answer.push(choice, stream.pop(), payloads)) stream.close();  // for each event up to kFinished
///   ... send the payloads, each as one event of SSE; where answer.error(), the last one shows it: hang up
///   answer.end(payloads);  // when done(); then "[DONE]"
///
/// Without streaming there are no payloads: body() when done(), or error_body(*error()).
class Answer {
 public:
  /// Model and job are borrowed.
  Answer(const ServedModel& model, const TextJob& job, std::string id, int64_t created);
  ~Answer();
  Answer(Answer&&) noexcept;

  /// Takes the next event of a choice's stream, and appends what is to be sent now. False: the text of the
  /// choice has ended, and its stream may be closed; its kFinished is to be handed in all the same.
  bool push(size_t choice, StreamEvent event, std::vector<std::string>& payloads);
  /// Whether kFinished has come for all choices, or one has failed.
  bool done() const;
  /// What went wrong underway.
  const std::optional<ApiError>& error() const;
  /// The chunk after the last choice has ended, if one was asked for.
  void end(std::vector<std::string>& payloads) const;

  /// The whole answer; of a job that does not stream, when done() without error().
  std::string body() const;
  Usage usage() const;
  /// Tokens of a choice so far, of which none came after the end of its text.
  int64_t n_generated(size_t choice) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// The answer to an EmbeddingJob: vectors[i] is [hidden], that of input i, normalised here.
std::string embedding_body(const ServedModel& model, const EmbeddingJob& job,
                           const std::vector<std::vector<float>>& vectors);

}  // namespace soli::openai
