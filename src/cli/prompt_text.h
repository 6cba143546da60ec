#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/session.h"

namespace soli::cli {

/// The tokens of a text, with what the model wants around one. An empty text is BOS, for a model that has
/// one; else it fails with kInvalidArgument. Fails as Tokenizer::encode() does.
Result<std::vector<int32_t>> encode_text(Session& session, const std::string& text, bool parse_special);

}  // namespace soli::cli
