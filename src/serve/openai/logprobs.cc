#include "serve/openai/logprobs.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace soli::openai {
namespace {

void append(std::string& list, const Json& element) {
  if (!list.empty()) list += ',';
  list += to_text(element);
}

Json number(double logprob) { return logprob > kLeastLogprob ? logprob : kLeastLogprob; }

/// The most likely tokens, the token itself among them.
std::vector<TokenLogprob> with_itself(const TextToken& token) {
  std::vector<TokenLogprob> top = token.top_logprobs;
  const auto is_it = [&](const TokenLogprob& entry) { return entry.token == token.token; };
  if (std::none_of(top.begin(), top.end(), is_it)) top.push_back({token.token, token.logprob.value_or(0)});
  return top;
}

Json chat_entry(const Tokenizer& tokenizer, int32_t id, double logprob) {
  const std::string_view piece = tokenizer.piece(id, true);
  return {{"token", replace_invalid_utf8(piece)},
          {"logprob", number(logprob)},
          {"bytes", std::vector<uint8_t>(piece.begin(), piece.end())}};
}

std::string completion_name(const Tokenizer& tokenizer, int32_t id) {
  const std::string_view piece = tokenizer.piece(id, true);
  if (is_valid_utf8(piece)) return std::string(piece);
  std::string name = "bytes:";
  for (const char byte : piece) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return name;
}

}  // namespace

void LogprobList::add(const TextToken& token) {
  if (endpoint_ == Endpoint::kChat) {
    add_to_chat(token);
  } else {
    add_to_completion(token);
  }
}

void LogprobList::add_to_chat(const TextToken& token) {
  Json entry = chat_entry(*tokenizer_, token.token, token.logprob.value_or(0));
  Json top = Json::array();
  if (n_top_ > 0) {
    for (const TokenLogprob& other : with_itself(token)) {
      top.push_back(chat_entry(*tokenizer_, other.token, other.logprob));
    }
  }
  entry["top_logprobs"] = std::move(top);
  append(content_, entry);
}

void LogprobList::add_to_completion(const TextToken& token) {
  const std::string name = completion_name(*tokenizer_, token.token);
  append(tokens_, name);
  append(text_offsets_, token.offset);
  if (!token.logprob) {
    append(token_logprobs_, nullptr);
    append(top_logprobs_, nullptr);
    return;
  }
  append(token_logprobs_, number(*token.logprob));
  Json top = Json::object();
  for (const TokenLogprob& other : with_itself(token)) {
    const std::string other_name = completion_name(*tokenizer_, other.token);
    if (other.token == token.token || (other_name != name && !top.contains(other_name))) {
      top[other_name] = number(other.logprob);
    }
  }
  append(top_logprobs_, top);
}

std::string LogprobList::json() const {
  if (endpoint_ == Endpoint::kChat) return fmt::format(R"({{"content":[{}],"refusal":null}})", content_);
  return fmt::format(R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}})",
                     tokens_, token_logprobs_, top_logprobs_, text_offsets_);
}

}  // namespace soli::openai
