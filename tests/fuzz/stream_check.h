#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "format/detokenizer.h"
#include "format/tokenizer.h"

namespace soli::fuzz {

/// Every chunk of a streamed text is UTF-8, and the chunks are the text.
inline void check_stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, DecodeOptions options) {
  Detokenizer stream(tokenizer, options);
  std::string joined;
  for (const int32_t id : ids) {
    const std::string chunk = stream.push(id);
    SOLI_CHECK(is_valid_utf8(chunk));
    joined += chunk;
  }
  joined += stream.flush();
  SOLI_CHECK(joined == replace_invalid_utf8(tokenizer.decode(ids, options)));
}

}  // namespace soli::fuzz
