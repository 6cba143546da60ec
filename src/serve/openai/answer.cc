#include "serve/openai/answer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "serve/openai/choice_text.h"
#include "serve/openai/logprobs.h"

namespace soli::openai {
namespace {

const char* name_of(FinishReason reason) { return reason == FinishReason::kEndToken ? "stop" : "length"; }

Json usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

}  // namespace

class Answer::State {
 public:
  State(const ServedModel& model, const TextJob& job, std::string id, int64_t created)
      : model_(model), job_(job), id_(std::move(id)), created_(created) {
    for (size_t i = 0; i < job.requests.size(); ++i) {
      choices_.push_back({ChoiceText(*model.tokenizer, job.stops, job.echo)});
    }
  }

  bool push(size_t index, StreamEvent event, std::vector<std::string>& payloads) {
    SOLI_CHECK(index < choices_.size());
    Choice& choice = choices_[index];
    if (error_ || choice.finished) return false;
    if (!choice.started) start(index, payloads);
    switch (event.kind) {
      case StreamEvent::Kind::kPromptToken:
        if (job_.echo && job_.logprobs) send(index, choice.text.push_prompt(token_of(event)), payloads);
        break;
      case StreamEvent::Kind::kToken:
        if (!choice.ended) take_token(index, event, payloads);
        break;
      case StreamEvent::Kind::kEmbedding:  // no text is an embedding
        break;
      case StreamEvent::Kind::kFinished:
        finish(index, event, payloads);
        break;
    }
    return !choice.ended;
  }

  bool done() const {
    return error_ ||
           std::all_of(choices_.begin(), choices_.end(), [](const Choice& c) { return c.finished; });
  }
  const std::optional<ApiError>& error() const { return error_; }

  void end(std::vector<std::string>& payloads) const {
    if (!job_.stream || !job_.include_usage || error_) return;
    Json chunk = head();
    chunk["choices"] = Json::array();
    chunk["usage"] = usage_json(usage());
    payloads.push_back(to_text(chunk));
  }

  std::string body() const {
    Json answer = head();
    answer["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) answer["choices"].push_back(whole_choice(i));
    answer["usage"] = usage_json(usage());
    return to_text(answer);
  }

  Usage usage() const {
    Usage usage;
    for (size_t i = 0; i < choices_.size(); ++i) {
      usage.completion_tokens += choices_[i].n_generated;
      if (i % static_cast<size_t>(job_.n) != 0) continue;
      usage.prompt_tokens += static_cast<int64_t>(job_.requests[i].prompt.size());
      usage.cached_tokens += choices_[i].n_cached;
    }
    return usage;
  }

 private:
  struct Choice {
    ChoiceText text;
    bool started = false;
    bool ended = false;     // nothing is added to the text
    bool finished = false;  // kFinished came
    const char* reason = nullptr;
    int64_t n_generated = 0;
    int64_t n_cached = 0;     // of the prompt
    std::string whole = {};   // without streaming: the text so far
    Json logprobs = nullptr;  // without streaming: of its tokens
  };

  bool is_chat() const { return job_.endpoint == Endpoint::kChat; }

  static TextToken token_of(StreamEvent& event) {
    return {event.token, event.logprob, std::move(event.top_logprobs)};
  }

  void start(size_t index, std::vector<std::string>& payloads) {
    Choice& choice = choices_[index];
    choice.started = true;
    if (job_.logprobs) choice.logprobs = empty_logprobs();
    if (job_.stream && is_chat()) {
      send_chunk(index, {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}, nullptr, payloads);
    }
    if (!job_.echo || job_.logprobs) return;
    // The whole prompt at once; with logprobs, the engine delivers its tokens.
    TextPiece prompt;
    for (const int32_t token : job_.requests[index].prompt) {
      prompt.text += choice.text.push_prompt({.token = token}).text;
    }
    send(index, std::move(prompt), payloads);
  }

  void take_token(size_t index, StreamEvent& event, std::vector<std::string>& payloads) {
    Choice& choice = choices_[index];
    ++choice.n_generated;
    const auto& ends = job_.requests[index].end_tokens;
    if (std::find(ends.begin(), ends.end(), event.token) != ends.end()) return;  // no part of the text
    send(index, choice.text.push(token_of(event)), payloads);
    if (choice.text.stopped()) end_choice(index, "stop", payloads);
  }

  void finish(size_t index, const StreamEvent& event, std::vector<std::string>& payloads) {
    Choice& choice = choices_[index];
    choice.finished = true;
    choice.n_cached = event.summary.n_cached;
    if (choice.ended) return;
    if (event.reason == FinishReason::kFailed || event.reason == FinishReason::kCancelled) {
      error_ = run_error(event.error.value_or(
          Error{ErrorKind::kCancelled, "the request was cancelled before it had ended"}));
      choice.ended = true;
      if (job_.stream) payloads.push_back(error_body(*error_));
      return;
    }
    send(index, choice.text.finish(), payloads);
    end_choice(index, choice.text.stopped() ? "stop" : name_of(event.reason), payloads);
  }

  void end_choice(size_t index, const char* reason, std::vector<std::string>& payloads) {
    Choice& choice = choices_[index];
    choice.ended = true;
    choice.reason = reason;
    if (job_.stream) send_chunk(index, is_chat() ? Json::object() : Json(""), nullptr, payloads);
  }

  Json empty_logprobs() const {
    if (!is_chat()) return empty_completion_logprobs();
    return {{"content", Json::array()}, {"refusal", nullptr}};
  }

  void add_logprobs(Json& logprobs, const std::vector<TextToken>& tokens) const {
    for (const TextToken& token : tokens) {
      if (is_chat()) {
        logprobs["content"].push_back(chat_logprob(*model_.tokenizer, token, job_.n_top_logprobs));
      } else {
        add_completion_logprob(logprobs, *model_.tokenizer, token);
      }
    }
  }

  void send(size_t index, TextPiece piece, std::vector<std::string>& payloads) {
    if (!job_.logprobs) piece.tokens.clear();
    if (piece.empty()) return;
    Choice& choice = choices_[index];
    if (!job_.stream) {
      choice.whole += piece.text;
      if (job_.logprobs) add_logprobs(choice.logprobs, piece.tokens);
      return;
    }
    Json logprobs = nullptr;
    if (job_.logprobs) {
      logprobs = empty_logprobs();
      add_logprobs(logprobs, piece.tokens);
    }
    Json content = is_chat() ? Json{{"content", piece.text}} : Json(piece.text);
    send_chunk(index, std::move(content), std::move(logprobs), payloads);
  }

  /// `content` is the delta of a chat, or the text of a completion.
  void send_chunk(size_t index, Json content, Json logprobs, std::vector<std::string>& payloads) const {
    const char* const reason = choices_[index].reason;
    Json choice = {{"index", index}};
    choice[is_chat() ? "delta" : "text"] = std::move(content);
    choice["logprobs"] = std::move(logprobs);
    choice["finish_reason"] = reason == nullptr ? Json() : Json(reason);
    Json chunk = head();
    chunk["choices"] = Json::array({std::move(choice)});
    if (job_.include_usage) chunk["usage"] = nullptr;
    payloads.push_back(to_text(chunk));
  }

  /// What a chunk and a whole answer begin with.
  Json head() const {
    const char* const object = !is_chat()    ? "text_completion"
                               : job_.stream ? "chat.completion.chunk"
                                             : "chat.completion";
    Json head = {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_.id}};
    if (job_.show_experts_per_token) head["experts_per_token"] = job_.experts_per_token;
    return head;
  }

  Json whole_choice(size_t index) const {
    const Choice& choice = choices_[index];
    Json json = {{"index", index}};
    if (is_chat()) {
      json["message"] = {{"role", "assistant"}, {"content", choice.whole}, {"refusal", nullptr}};
    } else {
      json["text"] = choice.whole;
    }
    json["logprobs"] = choice.logprobs;
    json["finish_reason"] = choice.reason == nullptr ? Json() : Json(choice.reason);
    return json;
  }

  const ServedModel& model_;
  const TextJob& job_;
  const std::string id_;
  const int64_t created_;
  std::vector<Choice> choices_;
  std::optional<ApiError> error_;
};

Answer::Answer(const ServedModel& model, const TextJob& job, std::string id, int64_t created)
    : state_(std::make_unique<State>(model, job, std::move(id), created)) {}
Answer::~Answer() = default;
Answer::Answer(Answer&&) noexcept = default;

bool Answer::push(size_t choice, StreamEvent event, std::vector<std::string>& payloads) {
  return state_->push(choice, std::move(event), payloads);
}
bool Answer::done() const { return state_->done(); }
const std::optional<ApiError>& Answer::error() const { return state_->error(); }
void Answer::end(std::vector<std::string>& payloads) const { state_->end(payloads); }
std::string Answer::body() const { return state_->body(); }
Usage Answer::usage() const { return state_->usage(); }

}  // namespace soli::openai
