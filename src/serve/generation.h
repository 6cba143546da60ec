#pragma once

// The way of a translated request: to the engine, and from there to its client.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/model_backend.h"
#include "serve/openai/answer.h"
#include "serve/openai/job.h"
#include "serve/request_log.h"

namespace soli::serve {

/// All choices of one request for text, as they are made. One thread at a time. When it goes, what still runs
/// ends.
class Generation {
 public:
  /// Queues one request of the engine for each choice: all, or none.
  static openai::ApiResult<std::unique_ptr<Generation>> submit(const ModelBackend& backend,
                                                               openai::TextJob job, const std::string& id,
                                                               Metrics& metrics,
                                                               std::shared_ptr<RequestContext> context);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;
  ~Generation();

  /// `on_ready` is called, from any thread, when advance() has something to do after it had nothing.
  void set_on_ready(const std::function<void()>& on_ready);
  /// Takes what has come, up to some events. False: there was nothing. Appends what is to be streamed.
  bool advance(std::vector<std::string>& payloads);
  bool done() const { return answer_.done(); }
  /// What still runs ends, and counts.
  void end();
  const openai::Answer& answer() const { return answer_; }
  const openai::TextJob& job() const { return job_; }
  /// What sees the tokens for the dashboard, or null. Before the first of them is taken.
  void set_trace(std::shared_ptr<RequestTrace> trace) { trace_ = std::move(trace); }

 private:
  struct Choice {
    std::shared_ptr<Stream> stream;
    bool stopped = false;   // its text has ended before its stream
    bool finished = false;  // and counted
    bool has_begun = false;
  };

  Generation(const ModelBackend& backend, openai::TextJob job, const std::string& id, Metrics& metrics,
             std::shared_ptr<RequestContext> context);
  void take(size_t choice, StreamEvent event, std::vector<std::string>& payloads);
  void count(size_t choice, RequestSummary summary, Outcome outcome);
  void count_prompt(size_t choice, const StreamEvent& event);

  const std::string model_path_;
  const openai::TextJob job_;
  openai::Answer answer_;
  Metrics& metrics_;
  const std::shared_ptr<RequestContext> context_;
  std::shared_ptr<RequestTrace> trace_;
  std::vector<Choice> choices_;
};

/// What the log says of a request of the engine that has failed; clients are told less.
std::string failure_text(const std::string& model_path, const Stream& stream, const Error& error);

/// Answers with a stream of server-sent events.
HttpResponse stream_answer(std::unique_ptr<Generation> generation);

/// Answers as a whole when all choices have ended; a client that leaves ends them. `work` runs what takes
/// long.
void collect_answer(std::unique_ptr<Generation> generation, const std::shared_ptr<Responder>& responder,
                    std::function<void(std::function<void()>)> work);

}  // namespace soli::serve
