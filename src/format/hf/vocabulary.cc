#include "format/hf/vocabulary.h"

#include <algorithm>

#include "base/utf8.h"

namespace soli::hf {

Status check_model(const JsonFile& file, const JsonValue& model) {
  SOLI_ASSIGN_OR_RETURN(const std::string type, model.text_or("type", "BPE"));
  if (type != "BPE") {
    return fail(ErrorKind::kUnsupported, "model.type is '{}'; 'BPE' is supported", printable(type));
  }
  for (const auto& [key, there, wanted] : {std::tuple("vocab", file.has_vocabulary, "an object"),
                                           std::tuple("merges", file.has_merges, "an array")}) {
    if (there) continue;
    SOLI_ASSIGN_OR_RETURN(const JsonValue value, model.at(key));
    return value.wrong(wanted);
  }
  return {};
}

Result<TokenizerSpec> collect_tokens(const JsonFile& file, const std::vector<AddedToken>& added) {
  int64_t last = -1;
  for (size_t i = 0; i < file.ids.size(); ++i) {
    if (file.ids[i] >= static_cast<int64_t>(kMaxVocabularyTokens)) {
      return fail(ErrorKind::kLimit, "model.vocab['{}'] is {}{}; ids below {} are allowed",
                  printable(file.vocabulary[i]), file.ids[i], file.ids[i] == kTooLarge ? " or more" : "",
                  kMaxVocabularyTokens);
    }
    last = std::max(last, file.ids[i]);
  }
  for (const AddedToken& token : added) last = std::max<int64_t>(last, token.id);
  TokenizerSpec spec;
  spec.tokens.resize(static_cast<size_t>(last + 1));
  spec.types.assign(spec.tokens.size(), static_cast<int32_t>(TokenType::kUnused));
  for (size_t i = 0; i < file.ids.size(); ++i) {
    const auto id = static_cast<size_t>(file.ids[i]);
    if (spec.types[id] != static_cast<int32_t>(TokenType::kUnused)) {
      return fail(ErrorKind::kMalformed, "model.vocab has the id {} for '{}' and for '{}'", id,
                  printable(spec.tokens[id]), printable(file.vocabulary[i]));
    }
    spec.tokens[id] = file.vocabulary[i];
    spec.types[id] = static_cast<int32_t>(TokenType::kNormal);
  }
  for (size_t i = 0; i < added.size(); ++i) {
    const auto id = static_cast<size_t>(added[i].id);
    const bool taken = spec.types[id] != static_cast<int32_t>(TokenType::kUnused);
    if (taken && spec.tokens[id] != added[i].content) {
      return fail(ErrorKind::kMalformed,
                  "added_tokens[{}].id is {}, which is that of '{}'; its content is '{}'", i, id,
                  printable(spec.tokens[id]), printable(added[i].content));
    }
    spec.tokens[id] = added[i].content;
    spec.types[id] = static_cast<int32_t>(added[i].special ? TokenType::kControl : TokenType::kUserDefined);
  }
  return spec;
}

Status check_unique(const JsonFile& file, const std::vector<AddedToken>& added,
                    const Vocabulary& vocabulary) {
  const auto other_id = [&](std::string_view text, int64_t id) {
    const auto found = vocabulary.find(text);
    return found && *found != id;
  };
  for (size_t i = 0; i < file.ids.size(); ++i) {
    if (!other_id(file.vocabulary[i], file.ids[i])) continue;
    return fail(ErrorKind::kMalformed, "model.vocab has '{}' twice, or added_tokens has it with another id",
                printable(file.vocabulary[i]));
  }
  for (size_t i = 0; i < added.size(); ++i) {
    if (!other_id(added[i].content, added[i].id)) continue;
    return fail(ErrorKind::kMalformed, "added_tokens[{}].id is {}, but '{}' has the id {} too", i,
                added[i].id, printable(added[i].content), *vocabulary.find(added[i].content));
  }
  return {};
}

Result<std::optional<int64_t>> find_special(std::string_view key, const std::optional<std::string>& text,
                                            const std::vector<int32_t>& around, const TokenizerSpec& spec) {
  if (!text) {
    return around.size() == 1 ? std::optional<int64_t>(around.front()) : std::nullopt;
  }
  const auto found = std::find(spec.tokens.begin(), spec.tokens.end(), *text);
  if (found == spec.tokens.end() || text->empty()) {
    return fail(ErrorKind::kMalformed, "tokenizer_config.json: {} is '{}', which is no token", key,
                printable(*text));
  }
  return std::optional<int64_t>(found - spec.tokens.begin());
}

}  // namespace soli::hf
