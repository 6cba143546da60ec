#pragma once

// What the files beside tokenizer.json say: tokenizer_config.json and chat_template.jinja.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/tokenizer_spec.h"

namespace soli::hf {

inline constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;
inline constexpr size_t kMaxChatTemplates = 64;

struct TokenizerConfig {
  std::optional<std::string> bos = {}, eos = {};  // texts of tokens
  std::optional<bool> add_bos = {}, add_eos = {};
  std::vector<ChatTemplateText> chat_templates = {};
};

/// Reads a tokenizer_config.json. Fails with kMalformed or kLimit, naming the place.
Result<TokenizerConfig> parse_config(std::string_view json);

/// Reads the two files in a folder, of which either may be absent. A chat_template.jinja takes the place of
/// the default template. Fails like parse_config, or with kIo, naming the file.
Result<TokenizerConfig> read_config(const std::string& folder);

}  // namespace soli::hf
