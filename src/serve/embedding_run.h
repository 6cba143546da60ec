#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "serve/generation.h"

namespace soli::serve {

/// Runs the inputs of a request for embeddings, some at a time so that a long list leaves the queue to
/// others, and answers when all have come. A client that leaves ends them.
class EmbeddingRun : public std::enable_shared_from_this<EmbeddingRun> {
 public:
  static constexpr size_t kAtOnce = 16;  // inputs in the engine

  /// `work` runs what takes long. All of the run happens on the thread of the responder's connection.
  static void start(const ModelBackend& backend, openai::EmbeddingJob job, Metrics& metrics,
                    std::shared_ptr<RequestContext> context, std::shared_ptr<Responder> responder,
                    std::function<void(std::function<void()>)> work);

  EmbeddingRun(const EmbeddingRun&) = delete;
  EmbeddingRun& operator=(const EmbeddingRun&) = delete;
  ~EmbeddingRun() { end(); }

 private:
  struct Input {
    size_t index = 0;
    std::shared_ptr<Stream> stream;
  };

  EmbeddingRun(const ModelBackend& backend, openai::EmbeddingJob job, Metrics& metrics,
               std::shared_ptr<RequestContext> context, std::shared_ptr<Responder> responder,
               std::function<void(std::function<void()>)> work);
  void schedule();
  void advance();
  /// True when the input has ended.
  bool take(Input& input);
  void submit_more();
  void fail_with(const openai::ApiError& error);
  void end();

  const ModelBackend backend_;
  const openai::EmbeddingJob job_;
  Metrics& metrics_;
  const std::shared_ptr<RequestContext> context_;
  const std::shared_ptr<Responder> responder_;
  const std::function<void(std::function<void()>)> work_;
  std::vector<std::vector<float>> vectors_;  // [input][hidden]
  std::vector<Input> running_;
  size_t n_submitted_ = 0;
  bool answered_ = false;
  std::atomic<bool> scheduled_ = false;
};

}  // namespace soli::serve
