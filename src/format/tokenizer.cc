#include "format/tokenizer.h"

#include <utility>

#include "format/gguf.h"
#include "format/pretokenizer.h"
#include "format/tokenizer_base.h"
#include "format/tokenizer_encoder.h"
#include "format/tokenizer_special.h"
#include "format/tokenizer_vocabulary.h"

namespace soli {
namespace {

class GgufTokenizer final : public VocabularyTokenizer {
 public:
  using VocabularyTokenizer::VocabularyTokenizer;

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
    std::string repaired;
    SOLI_ASSIGN_OR_RETURN(text, encodable(text, repaired));
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

 private:
  // These refer to the vocabulary.
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
  auto tokenizer = std::make_unique<GgufTokenizer>(std::move(vocabulary), kind);
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
