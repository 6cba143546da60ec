#include "serve/dashboard/request_json.h"

#include <fmt/format.h>

#include <iterator>

#include "format/detokenizer.h"

namespace soli::serve {
namespace {

using openai::Json;

const char* state_of(const TracedSummary& request) {
  if (request.use) return "done";
  return request.has_begun ? "running" : "waiting";
}

/// Goes through the routing of a request, token by token.
class RoutingReader {
 public:
  RoutingReader(const TracedRequest& request, size_t n_layers) : request_(request), n_layers_(n_layers) {}

  bool is_at_end() const { return position_ == request_.n_routed; }
  /// Appends ,"experts":[[..],..],"weights":[[..],..] of the next token, or passes over it.
  void take(std::string* text) {
    std::string experts;
    std::string weights;
    for (size_t layer = 0; layer < n_layers_; ++layer) {
      const size_t n = request_.layer_calls[static_cast<size_t>(position_) * n_layers_ + layer];
      const char* separator = "";
      experts += layer == 0 ? "[" : "],[";
      weights += layer == 0 ? "[" : "],[";
      for (size_t i = 0; text != nullptr && i < n; ++i) {
        fmt::format_to(std::back_inserter(experts), "{}{}", separator, request_.ids[call_ + i]);
        fmt::format_to(std::back_inserter(weights), "{}{}", separator, request_.weights[call_ + i]);
        separator = ",";
      }
      call_ += n;
    }
    ++position_;
    if (text == nullptr) return;
    fmt::format_to(std::back_inserter(*text), R"(,"experts":[{}]],"weights":[{}]])", experts, weights);
  }

 private:
  const TracedRequest& request_;
  const size_t n_layers_;
  int64_t position_ = 0;
  size_t call_ = 0;
};

/// Tokens with their texts and their routing, comma-separated.
std::string tokens_text(const TracedRequest& request, size_t n_layers, const Tokenizer& tokenizer,
                        int64_t since) {
  Detokenizer detokenizer(tokenizer, {.render_special = true});
  RoutingReader routing(request, n_layers);
  std::string text;
  const auto n_prompt = static_cast<int64_t>(request.prompt.size());
  for (int64_t position = 0; position < request.n_tokens; ++position) {
    const bool is_generated = position >= n_prompt;
    const int32_t token = is_generated ? request.generated[static_cast<size_t>(position - n_prompt)]
                                       : request.prompt[static_cast<size_t>(position)];
    std::string piece = detokenizer.push(token);
    if (position + 1 == request.n_tokens && request.use) piece += detokenizer.flush();
    const bool is_shown = position >= since;
    if (is_shown) {
      fmt::format_to(std::back_inserter(text), R"({}{{"position":{},"token":{},"text":{},"generated":{})",
                     text.empty() ? "" : ",", position, token, openai::to_text(piece), is_generated);
    }
    if (!routing.is_at_end()) {
      routing.take(is_shown ? &text : nullptr);
    } else if (is_shown) {
      text += R"(,"experts":null,"weights":null)";
    }
    if (is_shown) text += '}';
  }
  return text;
}

}  // namespace

Json request_json(const TracedSummary& request) {
  const bool is_done = request.use.has_value();
  const RequestUse use = request.use.value_or(RequestUse{});
  const auto when_done = [is_done](auto value) { return is_done ? Json(value) : Json(); };
  return {{"id", request.id},
          {"path", request.path},
          {"started", request.started_ms},
          {"state", state_of(request)},
          {"outcome", is_done ? Json(name_of(*use.outcome)) : Json()},
          {"stream", request.stream},
          {"choices", request.n_choices},
          {"experts_per_token", request.experts_per_token},
          {"policy", request.policy ? Json::parse(*request.policy) : Json()},
          {"exact", request.exact},
          {"prompt_tokens", request.n_prompt},
          {"cached_tokens", when_done(use.n_cached)},
          {"generated_tokens", is_done ? use.n_generated : request.n_generated},
          {"queue_seconds", when_done(use.queue_seconds)},
          {"prefill_seconds", when_done(use.prefill_seconds)},
          {"decode_seconds", when_done(use.decode_seconds)},
          {"has_tokens", request.has_tokens},
          {"n_tokens", request.n_tokens},
          {"n_dropped_tokens", request.n_dropped}};
}

std::string request_tokens_text(const TracedRequest& request, const std::vector<int64_t>& layers,
                                const Tokenizer& tokenizer, int64_t since) {
  Json json = request_json(request);
  json["layers"] = layers;
  std::string text = openai::to_text(json);
  text.pop_back();
  return text + ",\"tokens\":[" + tokens_text(request, layers.size(), tokenizer, since) + "]}";
}

}  // namespace soli::serve
