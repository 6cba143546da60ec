#include "format/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "format/gguf.h"
#include "format/tokenizer_encoder.h"
#include "format/tokenizer_special.h"
#include "format/tokenizer_vocabulary.h"

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

class GgufTokenizer final : public Tokenizer {
 public:
  GgufTokenizer(Vocabulary vocabulary, std::string description)
      : vocabulary_(std::move(vocabulary)), description_(std::move(description)) {}

  Status build(const TokenizerSpec& spec) {
    SOLI_ASSIGN_OR_RETURN(special_, SpecialTokenFinder::create(vocabulary_, spec.special_tokens_strip_right));
    if (spec.kind == TokenizerKind::kBytePairMerges) {
      SOLI_ASSIGN_OR_RETURN(encoder_, make_byte_pair_encoder(vocabulary_, spec));
    } else {
      SOLI_ASSIGN_OR_RETURN(encoder_, make_sentence_piece_encoder(vocabulary_));
    }
    return {};
  }

  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options) const override {
    if (text.size() > kMaxEncodeBytes) {
      return fail(ErrorKind::kLimit, "the text has {} bytes; {} are allowed", text.size(), kMaxEncodeBytes);
    }
    std::string repaired;
    if (!is_valid_utf8(text)) text = repaired = replace_invalid_utf8(text);
    std::vector<int32_t> ids;
    if (options.add_special && vocabulary_.add_bos) ids.push_back(*vocabulary_.bos);
    bool begins = true;
    for (const TextFragment& fragment : special_.split(text, options.parse_special)) {
      if (fragment.id >= 0) {
        ids.push_back(fragment.id);
      } else {
        const TextSpan span = fragment.span;
        const std::string_view part = text.substr(span.begin, span.end - span.begin);
        SOLI_RETURN_IF_ERROR(encoder_->encode(part, begins, ids));
      }
      begins = fragment.id >= 0;
    }
    if (options.add_special && vocabulary_.add_eos) ids.push_back(*vocabulary_.eos);
    return ids;
  }

  std::string_view piece(int32_t id, bool render_special) const override {
    if (!vocabulary_.contains(id) || (!render_special && vocabulary_.hidden(id))) return {};
    return vocabulary_.piece(id);
  }
  std::string decode(std::span<const int32_t> ids, DecodeOptions options) const override {
    std::string text;
    for (size_t i = 0; i < ids.size(); ++i) {
      std::string_view part = piece(ids[i], options.render_special);
      const bool first = i == 0 && options.begins_text && vocabulary_.add_space_prefix;
      if (first && part.starts_with(' ')) part.remove_prefix(1);
      text.append(part);
    }
    return text;
  }

  int32_t vocab_size() const override { return vocabulary_.size(); }
  std::string_view token_text(int32_t id) const override {
    return vocabulary_.contains(id) ? std::string_view(vocabulary_.text(id)) : std::string_view();
  }
  std::optional<int32_t> find_token(std::string_view text) const override { return vocabulary_.find(text); }
  bool is_control(int32_t id) const override { return vocabulary_.contains(id) && vocabulary_.hidden(id); }
  std::optional<int32_t> bos() const override { return vocabulary_.bos; }
  std::optional<int32_t> eos() const override { return vocabulary_.eos; }
  std::optional<int32_t> eot() const override { return vocabulary_.eot; }
  std::optional<int32_t> unknown() const override { return vocabulary_.unknown; }
  bool adds_bos() const override { return vocabulary_.add_bos; }
  bool adds_eos() const override { return vocabulary_.add_eos; }
  bool is_end_of_generation(int32_t id) const override {
    const auto& ids = vocabulary_.end_of_generation;
    return std::binary_search(ids.begin(), ids.end(), id);
  }
  const std::vector<int32_t>& end_of_generation_ids() const override { return vocabulary_.end_of_generation; }
  bool adds_space_prefix() const override { return vocabulary_.add_space_prefix; }
  std::string description() const override { return description_; }

 private:
  Vocabulary vocabulary_;  // the members below refer to it, so it must not move after build()
  std::string description_;
  SpecialTokenFinder special_;
  std::unique_ptr<TextEncoder> encoder_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> Tokenizer::create(TokenizerSpec spec) {
  if (spec.kind == TokenizerKind::kBytePairMerges && !spec.add_bos) {
    const PretokenizerEntry* entry = find_pretokenizer(spec.pretokenizer);
    if (entry != nullptr && entry->adds_bos) spec.add_bos = true;
  }
  const std::string kind = spec.kind == TokenizerKind::kBytePairMerges
                               ? "BPE, pre-tokenizer " + spec.pretokenizer
                               : "SentencePiece";
  SOLI_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::build(spec));
  auto tokenizer = std::make_unique<GgufTokenizer>(
      std::move(vocabulary), fmt::format("{}, {} tokens", kind, with_thousands(vocabulary.size())));
  SOLI_RETURN_IF_ERROR(tokenizer->build(spec));
  return tokenizer;
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_gguf(const GgufFile& file) {
  Result<TokenizerSpec> spec = read_tokenizer_spec(file);
  if (!spec) return in_context(file.path(), std::move(spec).error());
  auto tokenizer = create(*std::move(spec));
  if (!tokenizer) return in_context(file.path(), std::move(tokenizer).error());
  return tokenizer;
}

}  // namespace soli
