#pragma once

// The regular expressions of tokenizer.json, which are written for Oniguruma, in the language of PCRE2.

#include <string>
#include <string_view>

#include "base/result.h"

namespace soli::hf {

inline constexpr size_t kMaxPatternBytes = 16 << 10;
/// Of "{n,m}": what is repeated a fixed number of times cannot multiply the work without bound.
inline constexpr uint32_t kMaxRepeats = 1000;

/// The same pattern for Regex::compile, with callouts that count its work. What differs between the two
/// languages is spelled out: classes such as \s and \w are those of Unicode, "X{2}+" repeats "X{2}", and a
/// script is what the property Script says. Fails with kUnsupported for what has no counterpart (back
/// references, subroutines, set operations, "(?m)"), with kLimit or kMalformed; each error names the byte.
Result<std::string> pcre2_of_oniguruma(std::string_view pattern);

}  // namespace soli::hf
