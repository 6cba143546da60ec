#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/serve_options.h"
#include "cli/session.h"
#include "format/chat_template.h"
#include "model/parameters.h"
#include "serve/api_keys.h"
#include "serve/engine_host.h"
#include "serve/expert_figures.h"
#include "serve/generation.h"
#include "serve/openai/served_model.h"

namespace soli::cli {

/// The model that a server serves: opened, then loaded and run.
class ServeModel {
 public:
  /// Reads the head of the file, the vocabulary and the chat template; no weights. Fails where one of them
  /// cannot be used.
  static Result<std::unique_ptr<ServeModel>> open(const ServeOptions& options);

  /// Fails where a key may ask for more experts than the model has.
  Status check_keys(const serve::ApiKeys& keys) const;

  const openai::ServedModel& served() const { return served_; }
  const std::string& id() const { return served_.id; }
  int64_t context_length() const { return served_.context_length; }
  bool takes_chats() const { return template_.has_value(); }
  const Session& session() const { return *session_; }

  /// Loads the weights, telling how far it is (0 to 1), and starts the thread of the engine.
  Status start(std::function<void(double)> on_progress);
  /// After start().
  serve::ModelBackend backend();
  /// Ends the thread of the engine.
  void stop();
  Status save_records() const { return session_->save_records(); }
  /// Also while the engine runs.
  Status finish_trace() { return session_->finish_trace(); }

 private:
  EngineOptions engine_options() const;
  explicit ServeModel(const ServeOptions& options) : options_(options) {}
  Status open_template(const Tokenizer& tokenizer);
  serve::ModelFigures figures() const;

  const ServeOptions options_;
  std::unique_ptr<Session> session_;
  std::optional<ChatTemplate> template_;
  std::optional<ParameterCounts> parameters_;
  openai::ServedModel served_;
  std::unique_ptr<serve::ExpertFigures> experts_;  // null: they are not measured
  int64_t page_bytes_ = 0;
  std::unique_ptr<serve::EngineHost> host_;
};

}  // namespace soli::cli
