#pragma once

// Characters and normal forms as the Hugging Face tokenizers library sees them: those of Rust's char, of its
// crates regex and unicode-normalization. All texts are well-formed UTF-8.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace soli::hf {

/// The property White_Space.
bool is_white_space(uint32_t code_point);
/// General category M.
bool is_mark(uint32_t code_point);
/// Appends the lower case of one character, whatever stands around it.
void append_lower(std::string& out, uint32_t code_point);

/// Bytes of the longest run of white space that the text begins, or ends, with.
size_t leading_white_space(std::string_view text);
size_t trailing_white_space(std::string_view text);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

/// The text in a normal form, in O(n log n) time also where marks follow each other without end. Fails with
/// kLimit where it would be longer than `max_bytes`.
Result<std::string> normalized(std::string_view text, NormalForm form, size_t max_bytes);

/// The error for a text that grows beyond what is allowed.
tl::unexpected<Error> too_long(size_t max_bytes);

}  // namespace soli::hf
