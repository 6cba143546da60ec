#pragma once

// The member "post_processor" of tokenizer.json: which special tokens go around a text.

#include <cstdint>
#include <vector>

#include "format/hf/json.h"

namespace soli::hf {

struct Surroundings {
  std::vector<int32_t> before, after;
};

/// What surrounds a single text. Fails with kMalformed, kUnsupported or kLimit, naming the place and, for an
/// unknown type, those known. `n_tokens` is the size of the vocabulary.
Result<Surroundings> read_post_processor(const JsonValue& value, int32_t n_tokens);

}  // namespace soli::hf
