#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace soli::cli {

/// Longest text that a prompt may have, in bytes.
inline constexpr int64_t kMaxPromptBytes = int64_t{64} << 20;
/// Longest text that is evaluated, in bytes.
inline constexpr int64_t kMaxEvaluatedBytes = int64_t{1} << 30;

/// All of standard input. Fails with kLimit beyond `max_bytes`, or with kIo.
Result<std::string> read_standard_input(int64_t max_bytes);
/// All of a file, a pipe or a device. Fails like read_standard_input, or with kNotFound.
Result<std::string> read_text(const std::string& path, int64_t max_bytes);
/// Its first `max_bytes` at most. Fails like read_text, but never with kLimit.
Result<std::string> read_beginning(const std::string& path, int64_t max_bytes);

bool standard_input_is_terminal();

}  // namespace soli::cli
