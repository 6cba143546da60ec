#pragma once

// A served model without weights: a tokenizer of one token per byte and a chat template, for what translates
// bodies and answers.

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "serve/openai/served_model.h"
#include "support/tokenizer_specs.h"

namespace soli::openai {

/// Ids 0 to 255 are the bytes; what follows has names here.
inline constexpr int32_t kHello = 256;      // "hello"
inline constexpr int32_t kEuroBegin = 257;  // the first two bytes of "€"
inline constexpr int32_t kTurn = 258;       // "<|turn|>", a control token
inline constexpr int32_t kEnd = 259;        // "<|end|>", the end token
inline constexpr int32_t kVocabSize = 260;

inline constexpr const char* kTemplate =
    "{%- for m in messages %}<|turn|>{{ m.role }}:{{ m.content }}{% if m.name %}({{ m.name }}){% endif "
    "%}<|end|>"
    "{%- if m.role == 'bad' %}{{ raise_exception('no such role') }}{% endif %}{%- endfor %}"
    "{%- if enable_thinking %}think {{ reasoning_effort }}{% endif %}"
    "{%- if add_generation_prompt %}<|turn|>assistant:{% endif %}";

class Served {
 public:
  Served() : template_(ChatTemplate::parse(kTemplate).value()) {
    auto pieces =
        tokenizer_test::byte_pair_spec({"h e", "l l", "he ll", "hell o", "â Ĥ"}, {"<|turn|>", "<|end|>"});
    // Only the whole word is a token of its own, so that ids are those of the bytes otherwise.
    pieces.tokens = keep(pieces.tokens);
    pieces.types.assign(pieces.tokens.size(), static_cast<int32_t>(TokenType::kNormal));
    pieces.types[kTurn] = pieces.types[kEnd] = static_cast<int32_t>(TokenType::kControl);
    pieces.merges.clear();
    pieces.eos = kEnd;
    pieces.add_bos = false;
    tokenizer_ = Tokenizer::create(std::move(pieces)).value();
    spec_.vocab_size = kVocabSize;
    spec_.hidden_size = 4;
    spec_.n_layers = 2;
    spec_.router = {.n_experts = 8, .experts_per_token = 2};
    parameters_.nominal_total = {.parameters = 1000, .bytes = 2000};
    parameters_.always_active = {.parameters = 100, .bytes = 200};
    parameters_.expert.assign(2, std::vector<PartSize>(8, {.parameters = 10, .bytes = 20}));
    model.id = "tiny";
    model.created = 1700000000;
    model.tokenizer = tokenizer_.get();
    model.chat_template = &template_;
    model.chat_template_text = kTemplate;
    model.context_length = 64;
    model.spec = &spec_;
    model.parameters = &parameters_;
    model.limits.experts_per_token = 4;
  }

  ModelSpec& spec() { return spec_; }

  ServedModel model;

 private:
  static std::vector<std::string> keep(const std::vector<std::string>& tokens) {
    std::vector<std::string> kept(tokens.begin(), tokens.begin() + 256);
    for (const char* const text : {"hello", "âĤ", "<|turn|>", "<|end|>"}) kept.emplace_back(text);
    return kept;
  }

  ChatTemplate template_;
  std::unique_ptr<Tokenizer> tokenizer_;
  ModelSpec spec_;
  ParameterCounts parameters_;
};

/// The ids of a text, one for each byte.
inline std::vector<int32_t> bytes_of(std::string_view text) {
  std::vector<int32_t> ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

}  // namespace soli::openai
