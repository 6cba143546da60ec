#include "serve/openai/answer.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "model/policy_text.h"
#include "serve/openai/choice_text.h"
#include "serve/openai/logprobs.h"
#include "serve/openai/routing.h"

namespace soli::openai {
namespace {

const char* name_of(FinishReason reason) { return reason == FinishReason::kEndToken ? "stop" : "length"; }

/// An object with one more member, whose value is JSON already.
void add_member(std::string& object, std::string_view name, std::string_view value) {
  object.pop_back();
  fmt::format_to(std::back_inserter(object), "{}\"{}\":{}}}", object.size() > 1 ? "," : "", name, value);
}

/// Routing that a stream has not sent is sent beyond so many bytes, also without text.
constexpr size_t kRoutingChunkBytes = size_t{64} << 10;

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
      choices_.push_back({ChoiceText(*model.tokenizer, job.stops, job.echo), new_logprobs()});
      if (job.routing == RoutingDetail::kNone) continue;
      choices_.back().routing.emplace(model, job.routing,
                                      static_cast<int64_t>(job.requests[i].prompt.size()));
    }
  }

  bool push(size_t index, StreamEvent event, std::vector<std::string>& payloads) {
    SOLI_CHECK(index < choices_.size());
    Choice& choice = choices_[index];
    if (error_ || choice.finished) return false;
    if (!choice.started) start(index, payloads);
    if (!choice.ended) note_routing(index, event, payloads);
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
    std::string chunk = head();
    add_member(chunk, "choices", "[]");
    add_member(chunk, "usage", to_text(usage_json(usage())));
    payloads.push_back(std::move(chunk));
  }

  std::string body() const {
    std::string choices = "[";
    for (size_t i = 0; i < choices_.size(); ++i) {
      if (i > 0) choices += ',';
      choices += whole_choice(i);
    }
    choices += ']';
    std::string answer = head();
    add_member(answer, "choices", choices);
    add_member(answer, "usage", to_text(usage_json(usage())));
    return answer;
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

  int64_t n_generated(size_t choice) const { return choices_[choice].n_generated; }

 private:
  struct Choice {
    ChoiceText text;
    LogprobList logprobs;  // without streaming: of its tokens
    bool started = false;
    bool ended = false;     // nothing is added to the text
    bool finished = false;  // kFinished came
    const char* reason = nullptr;
    int64_t n_generated = 0;
    int64_t n_cached = 0;    // of the prompt
    std::string whole = {};  // without streaming: the text so far
    std::optional<ChoiceRouting> routing = {};
    std::vector<int32_t> generated = {};  // where routing is wanted
  };

  bool is_chat() const { return job_.endpoint == Endpoint::kChat; }

  static TextToken token_of(StreamEvent& event) {
    return {event.token, event.logprob, std::move(event.top_logprobs)};
  }

  void start(size_t index, std::vector<std::string>& payloads) {
    Choice& choice = choices_[index];
    choice.started = true;
    if (job_.stream && is_chat()) {
      send_chunk(index, {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}, "null", payloads);
    }
    if (!job_.echo || job_.logprobs) return;
    // The whole prompt at once; with logprobs, the engine delivers its tokens.
    TextPiece prompt;
    for (const int32_t token : job_.requests[index].prompt) {
      prompt.text += choice.text.push_prompt({.token = token}).text;
    }
    send(index, std::move(prompt), payloads);
  }

  void note_routing(size_t index, const StreamEvent& event, std::vector<std::string>& payloads) {
    Choice& choice = choices_[index];
    if (!choice.routing) return;
    if (event.routing) {
      // Of a token that is known already: one of the prompt, or the one drawn before this.
      const std::vector<int32_t>& prompt = job_.requests[index].prompt;
      const auto position = static_cast<size_t>(event.routing->position);
      const bool of_prompt = position < prompt.size();
      SOLI_CHECK(of_prompt || position - prompt.size() < choice.generated.size());
      choice.routing->add(*event.routing,
                          of_prompt ? prompt[position] : choice.generated[position - prompt.size()],
                          routing_bytes_left_);
    }
    if (event.kind == StreamEvent::Kind::kToken) choice.generated.push_back(event.token);
    if (job_.stream && choice.routing->tokens().size() > kRoutingChunkBytes) {
      send_chunk(index, is_chat() ? Json::object() : Json(""), "null", payloads);
    }
  }

  /// What has been collected and not yet sent; with the end of the choice, the summary. "": nothing.
  std::string routing_json(const Choice& choice) const {
    if (!choice.routing) return "";
    std::string json = "{}";
    if (choice.ended) {
      add_member(json, "summary", to_text(choice.routing->summary(job_.experts_per_token)));
    }
    if (const std::string& tokens = choice.routing->tokens(); !tokens.empty()) {
      add_member(json, "tokens", fmt::format("[{}]", tokens));
    }
    return json.size() == 2 ? "" : json;
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
      error_ = event.error ? run_error(*event.error) : ending_error();  // nobody else cancels
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
    if (job_.stream) send_chunk(index, is_chat() ? Json::object() : Json(""), "null", payloads);
  }

  LogprobList new_logprobs() const {
    return LogprobList(*model_.tokenizer, job_.endpoint, job_.n_top_logprobs);
  }

  void send(size_t index, TextPiece piece, std::vector<std::string>& payloads) {
    if (!job_.logprobs) piece.tokens.clear();
    if (piece.empty()) return;
    Choice& choice = choices_[index];
    LogprobList part = new_logprobs();
    LogprobList& logprobs = job_.stream ? part : choice.logprobs;
    for (const TextToken& token : piece.tokens) logprobs.add(token);
    if (!job_.stream) {
      choice.whole += piece.text;
      return;
    }
    Json content = is_chat() ? Json{{"content", piece.text}} : Json(piece.text);
    send_chunk(index, std::move(content), job_.logprobs ? part.json() : "null", payloads);
  }

  /// `content` is the delta of a chat, or the text of a completion.
  void send_chunk(size_t index, Json content, const std::string& logprobs,
                  std::vector<std::string>& payloads) {
    Json choice = {{"index", index}};
    choice[is_chat() ? "delta" : "text"] = std::move(content);
    std::string chunk = head();
    add_member(chunk, "choices", fmt::format("[{}]", choice_json(choice, logprobs, index)));
    if (job_.include_usage) add_member(chunk, "usage", "null");
    payloads.push_back(std::move(chunk));
    if (choices_[index].routing) choices_[index].routing->clear_tokens(routing_bytes_left_);
  }

  std::string whole_choice(size_t index) const {
    const Choice& choice = choices_[index];
    Json json = {{"index", index}};
    if (is_chat()) {
      json["message"] = {{"role", "assistant"}, {"content", choice.whole}, {"refusal", nullptr}};
    } else {
      json["text"] = choice.whole;
    }
    return choice_json(json, job_.logprobs ? choice.logprobs.json() : "null", index);
  }

  /// Adds what choices of all kinds end with.
  std::string choice_json(const Json& json, const std::string& logprobs, size_t index) const {
    const char* const reason = choices_[index].reason;
    std::string text = to_text(json);
    add_member(text, "logprobs", logprobs);
    add_member(text, "finish_reason", reason == nullptr ? "null" : to_text(reason));
    if (const std::string routing = routing_json(choices_[index]); !routing.empty()) {
      add_member(text, "routing", routing);
    }
    return text;
  }

  /// What a chunk and a whole answer begin with.
  std::string head() const {
    const char* const object = !is_chat()    ? "text_completion"
                               : job_.stream ? "chat.completion.chunk"
                                             : "chat.completion";
    Json head = {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_.id}};
    if (job_.show_experts_per_token) head["experts_per_token"] = job_.experts_per_token;
    if (job_.show_policy) head["policy"] = policy_json(job_.requests.front().policy);
    return to_text(head);
  }

  const ServedModel& model_;
  const TextJob& job_;
  const std::string id_;
  const int64_t created_;
  std::vector<Choice> choices_;
  int64_t routing_bytes_left_ = kMaxRoutingBytes;
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
int64_t Answer::n_generated(size_t choice) const { return state_->n_generated(choice); }

}  // namespace soli::openai
