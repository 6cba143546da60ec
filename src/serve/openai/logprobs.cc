#include "serve/openai/logprobs.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace soli::openai {
namespace {

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

Json chat_logprob(const Tokenizer& tokenizer, const TextToken& token, int64_t n_top) {
  Json entry = chat_entry(tokenizer, token.token, token.logprob.value_or(0));
  Json top = Json::array();
  if (n_top > 0) {
    for (const TokenLogprob& other : with_itself(token)) {
      top.push_back(chat_entry(tokenizer, other.token, other.logprob));
    }
  }
  entry["top_logprobs"] = std::move(top);
  return entry;
}

Json empty_completion_logprobs() {
  return {{"tokens", Json::array()},
          {"token_logprobs", Json::array()},
          {"top_logprobs", Json::array()},
          {"text_offset", Json::array()}};
}

void add_completion_logprob(Json& logprobs, const Tokenizer& tokenizer, const TextToken& token) {
  const std::string name = completion_name(tokenizer, token.token);
  logprobs["tokens"].push_back(name);
  logprobs["text_offset"].push_back(token.offset);
  if (!token.logprob) {
    logprobs["token_logprobs"].push_back(nullptr);
    logprobs["top_logprobs"].push_back(nullptr);
    return;
  }
  logprobs["token_logprobs"].push_back(number(*token.logprob));
  Json top = Json::object();
  for (const TokenLogprob& other : with_itself(token)) {
    const std::string other_name = completion_name(tokenizer, other.token);
    if (other.token == token.token || (other_name != name && !top.contains(other_name))) {
      top[other_name] = number(other.logprob);
    }
  }
  logprobs["top_logprobs"].push_back(std::move(top));
}

}  // namespace soli::openai
