#include "cli/prompt_text.h"

namespace soli::cli {

Result<std::vector<int32_t>> encode_text(Session& session, const std::string& text, bool parse_special) {
  SOLI_ASSIGN_OR_RETURN(const Tokenizer* const tokenizer, session.tokenizer());
  SOLI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens,
                        tokenizer->encode(text, {.add_special = true, .parse_special = parse_special}));
  if (tokens.empty() && tokenizer->bos()) tokens.push_back(*tokenizer->bos());
  if (tokens.empty()) {
    return fail(ErrorKind::kInvalidArgument,
                "the prompt is empty, and this model has no token that begins a text; write some text");
  }
  return tokens;
}

}  // namespace soli::cli
