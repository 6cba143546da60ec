#include "format/tokenizer_spec.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "base/utf8.h"
#include "format/gguf.h"

namespace soli {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";

Result<std::vector<std::string>> read_strings(const GgufMetadata& metadata, std::string_view key,
                                              size_t limit) {
  SOLI_ASSIGN_OR_RETURN(const GgufStrings strings, metadata.get_strings(key));
  if (strings.size() > limit) {
    return fail(ErrorKind::kLimit, "{} has {} entries; {} are allowed", key, strings.size(), limit);
  }
  std::vector<std::string> out;
  out.reserve(strings.size());
  for (const std::string_view text : strings) out.emplace_back(text);
  return out;
}

/// Scores are floats; some converters wrote whole numbers.
Result<std::vector<float>> read_scores(const GgufMetadata& metadata) {
  constexpr std::string_view key = "tokenizer.ggml.scores";
  const GgufValue* value = metadata.find(key);
  if (value == nullptr) return std::vector<float>();
  if (value->type != GgufType::kArray || value->element == GgufType::kFloat32 ||
      value->element == GgufType::kFloat64) {
    return metadata.get_floats(key);
  }
  SOLI_ASSIGN_OR_RETURN(const std::vector<int64_t> whole, metadata.get_ints(key));
  return std::vector<float>(whole.begin(), whole.end());
}

Result<std::vector<int32_t>> read_types(const GgufMetadata& metadata) {
  constexpr std::string_view key = "tokenizer.ggml.token_type";
  std::vector<int32_t> types;
  if (!metadata.has(key)) return types;
  SOLI_ASSIGN_OR_RETURN(const std::vector<int64_t> values, metadata.get_ints(key));
  types.reserve(values.size());
  // Values outside 32 bits stay outside the allowed ones when they are clamped.
  for (const int64_t value : values) {
    types.push_back(static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX)));
  }
  return types;
}

Status read_id(const GgufMetadata& metadata, std::string_view key, size_t tokens,
               std::optional<int64_t>& out) {
  if (!metadata.has(key)) return {};
  SOLI_ASSIGN_OR_RETURN(const uint64_t id, metadata.get_uint(key));
  constexpr uint64_t kNone = UINT32_MAX;  // how some converters say that there is no such token
  if (id == kNone) return {};
  if (id >= tokens) {
    return fail(ErrorKind::kMalformed, "{} is {}; the vocabulary has {} tokens", key, id, tokens);
  }
  out = static_cast<int64_t>(id);
  return {};
}

Status read_flag(const GgufMetadata& metadata, std::string_view key, std::optional<bool>& out) {
  if (!metadata.has(key)) return {};
  SOLI_ASSIGN_OR_RETURN(out, metadata.get_bool(key));
  return {};
}

/// As llama.cpp does, since no key tells it.
Result<bool> is_named_phi3(const GgufMetadata& metadata) {
  SOLI_ASSIGN_OR_RETURN(const std::string_view given, metadata.get_string_or("general.name", ""));
  std::string name(given);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name.find("phi-3") != std::string::npos || name.find("phi3") != std::string::npos;
}

/// "tokenizer.chat_template" is the default one, "tokenizer.chat_template.rag" is called "rag".
Result<std::vector<ChatTemplateText>> read_chat_templates(const GgufMetadata& metadata) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  std::vector<ChatTemplateText> out;
  for (const GgufMetadata::Entry& entry : metadata.entries()) {
    std::string_view name = entry.key;
    if (!name.starts_with(kKey)) continue;
    name.remove_prefix(kKey.size());
    if (!name.empty() && (name.front() != '.' || name.size() == 1)) continue;
    SOLI_ASSIGN_OR_RETURN(const std::string_view text, metadata.get_string(entry.key));
    out.push_back({name.empty() ? "default" : std::string(name.substr(1)), std::string(text)});
  }
  return out;
}

Status read_kind(const GgufMetadata& metadata, TokenizerSpec& spec) {
  SOLI_ASSIGN_OR_RETURN(const std::string_view model, metadata.get_string("tokenizer.ggml.model"));
  if (model == "gpt2") {
    spec.kind = TokenizerKind::kBytePairMerges;
    SOLI_ASSIGN_OR_RETURN(const std::string_view name,
                          metadata.get_string_or("tokenizer.ggml.pre", "default"));
    spec.pretokenizer = name.empty() ? "default" : name;
    SOLI_ASSIGN_OR_RETURN(spec.merges, read_strings(metadata, "tokenizer.ggml.merges", kMaxVocabularyMerges));
  } else if (model == "llama") {
    spec.kind = TokenizerKind::kSentencePiece;
  } else {
    return fail(ErrorKind::kUnsupported, "tokenizer.ggml.model is '{}'; 'gpt2' and 'llama' are supported",
                printable(model));
  }
  return {};
}

}  // namespace

Result<TokenizerSpec> read_tokenizer_spec(const GgufFile& file) {
  return read_tokenizer_spec(file.metadata());
}

Result<TokenizerSpec> read_tokenizer_spec(const GgufMetadata& metadata) {
  TokenizerSpec spec;
  SOLI_RETURN_IF_ERROR(read_kind(metadata, spec));
  SOLI_ASSIGN_OR_RETURN(spec.tokens, read_strings(metadata, kTokensKey, kMaxVocabularyTokens));
  SOLI_ASSIGN_OR_RETURN(spec.scores, read_scores(metadata));
  SOLI_ASSIGN_OR_RETURN(spec.types, read_types(metadata));
  const size_t n = spec.tokens.size();
  SOLI_RETURN_IF_ERROR(read_id(metadata, "tokenizer.ggml.bos_token_id", n, spec.bos));
  SOLI_RETURN_IF_ERROR(read_id(metadata, "tokenizer.ggml.eos_token_id", n, spec.eos));
  SOLI_RETURN_IF_ERROR(read_id(metadata, "tokenizer.ggml.eot_token_id", n, spec.eot));
  SOLI_RETURN_IF_ERROR(read_id(metadata, "tokenizer.ggml.eom_token_id", n, spec.eom));
  SOLI_RETURN_IF_ERROR(read_id(metadata, "tokenizer.ggml.unknown_token_id", n, spec.unknown));
  SOLI_RETURN_IF_ERROR(read_flag(metadata, "tokenizer.ggml.add_bos_token", spec.add_bos));
  SOLI_RETURN_IF_ERROR(read_flag(metadata, "tokenizer.ggml.add_eos_token", spec.add_eos));
  SOLI_RETURN_IF_ERROR(read_flag(metadata, "tokenizer.ggml.add_space_prefix", spec.add_space_prefix));
  SOLI_ASSIGN_OR_RETURN(spec.special_tokens_strip_right, is_named_phi3(metadata));
  SOLI_ASSIGN_OR_RETURN(spec.chat_templates, read_chat_templates(metadata));
  return spec;
}

}  // namespace soli
