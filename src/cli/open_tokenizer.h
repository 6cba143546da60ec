#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "format/tokenizer.h"

namespace soli::cli {

/// What open_tokenizer() takes, for the help of a command.
inline constexpr const char* kTokenizerPaths = "GGUF file, tokenizer.json, or directory with one";

/// The tokenizer of a GGUF file, of a tokenizer.json or of a directory with one. Fails as they do.
Result<std::unique_ptr<Tokenizer>> open_tokenizer(const std::string& path);

}  // namespace soli::cli
