#include "format/tokenizer_base.h"

#include "base/utf8.h"

namespace soli {
namespace {

/// 151936 → "151,936".
std::string with_thousands(int64_t count) {
  const std::string digits = std::to_string(count);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out.push_back(',');
    out.push_back(digits[i]);
  }
  return out;
}

}  // namespace

VocabularyTokenizer::VocabularyTokenizer(Vocabulary vocabulary, const std::string& kind)
    : vocabulary_(std::move(vocabulary)),
      description_(fmt::format("{}, {} tokens", kind, with_thousands(vocabulary_.size()))) {}

std::string VocabularyTokenizer::decode(std::span<const int32_t> ids, DecodeOptions options) const {
  std::string text;
  bool at_start = options.begins_text;
  for (const int32_t id : ids) {
    std::string_view part = piece(id, options.render_special);
    // Tokens that show nothing, such as BOS, leave the beginning where it is.
    if (part.empty()) continue;
    if (at_start && vocabulary_.add_space_prefix && part.front() == ' ') part.remove_prefix(1);
    at_start = false;
    text.append(part);
  }
  return text;
}

Result<std::string_view> VocabularyTokenizer::encodable(std::string_view text, std::string& repaired) {
  if (text.size() > kMaxEncodeBytes) {
    return fail(ErrorKind::kLimit, "the text has {} bytes; {} are allowed", text.size(), kMaxEncodeBytes);
  }
  if (is_valid_utf8(text)) return text;
  repaired = replace_invalid_utf8(text);
  return std::string_view(repaired);
}

}  // namespace soli
