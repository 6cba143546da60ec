#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "base/utf8.h"
#include "format/tokenizer_encoder.h"
#include "format/tokenizer_merge.h"

namespace soli {
namespace {

constexpr uint32_t kBlankMarkCodePoint = 0x2581;

// A character that is no token is the symbol of this number plus its code point.
constexpr int32_t kCharacterSymbols = 1 << 21;
static_assert(kCharacterSymbols >= static_cast<int32_t>(kMaxVocabularyTokens));

// Limits of the table that is built from the tokens' texts: pairs in it, and steps to find them. The
// vocabulary of Llama 2 needs 0.1 million pairs and 2 million steps.
constexpr size_t kMaxPairs = size_t{1} << 21;
constexpr size_t kMaxPairSteps = size_t{1} << 31;

class SentencePieceEncoder final : public TextEncoder {
 public:
  explicit SentencePieceEncoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      auto id = vocabulary.find(fmt::format("<0x{:02X}>", byte));
      if (!id) id = vocabulary.find(std::string(1, static_cast<char>(byte)));
      byte_tokens_.ids[byte] = id ? *id : vocabulary.unknown.value_or(-1);
    }
  }

  /// A token is the merge of any two symbols whose texts make its text; its score decides when. Tokens of
  /// equal score have equal rank.
  Status build() {
    size_t steps = 0;
    for (int32_t id = 0; id < vocabulary_.size(); ++id)
      steps += vocabulary_.text(id).size() * vocabulary_.text(id).size();
    if (steps > kMaxPairSteps) {
      return fail(ErrorKind::kLimit,
                  "the tokens are too long: the squares of their lengths make {}; {} are allowed", steps,
                  kMaxPairSteps);
    }
    size_t pairs = 0;
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
      for_each_split(id, [&](int32_t, int32_t) { ++pairs; });
      words_end_before_blanks_ &= !has_blank_after_other(vocabulary_.text(id));
    }
    if (pairs > kMaxPairs) {
      return fail(ErrorKind::kLimit, "the vocabulary has {} pairs of tokens that are a token; {} are allowed",
                  pairs, kMaxPairs);
    }
    merges_ = MergeTable(pairs);
    const std::vector<uint32_t> ranks = ranks_by_score();
    for (int32_t id = 0; id < vocabulary_.size(); ++id) {
      const uint32_t rank = ranks[static_cast<size_t>(id)];
      for_each_split(id, [&](int32_t left, int32_t right) { merges_.insert(left, right, {rank, id}); });
    }
    return {};
  }

  Status encode(std::string_view text, bool begins, std::vector<int32_t>& ids) const override {
    WordMerger merger(merges_);
    bool blank = true;  // whether the last character was one
    if (begins && vocabulary_.add_space_prefix) merger.add(symbol_of(kBlankMark, kBlankMarkCodePoint));
    while (!text.empty()) {
      const Utf8Unit unit = utf8_front(text);
      const bool mark = unit.code_point == ' ' || unit.code_point == kBlankMarkCodePoint;
      if (mark && !blank && words_end_before_blanks_) SOLI_RETURN_IF_ERROR(finish(merger, ids));
      merger.add(mark ? symbol_of(kBlankMark, kBlankMarkCodePoint)
                      : symbol_of(text.substr(0, unit.bytes), unit.code_point));
      blank = mark;
      text.remove_prefix(unit.bytes);
    }
    return finish(merger, ids);
  }

 private:
  int32_t symbol_of(std::string_view character, uint32_t code_point) const {
    return vocabulary_.find(character).value_or(kCharacterSymbols + static_cast<int32_t>(code_point));
  }

  /// The symbol of a token or of a single character.
  std::optional<int32_t> symbol_of(std::string_view text) const {
    const Utf8Unit unit = utf8_front(text);
    if (unit.valid && unit.bytes == text.size()) return symbol_of(text, unit.code_point);
    return vocabulary_.find(text);
  }

  /// Calls `visit(left, right)` for each pair of symbols that makes the token's text.
  template <typename Visit>
  void for_each_split(int32_t id, Visit&& visit) const {
    const std::string_view text = vocabulary_.text(id);
    if (vocabulary_.find(text) != id) return;  // another token has the same text
    for (size_t i = 0; i < text.size();) {
      const Utf8Unit unit = utf8_front(text.substr(i));
      if (!unit.valid) return;  // no text has it
      i += unit.bytes;
      if (i == text.size()) return;
      const auto left = symbol_of(text.substr(0, i));
      if (!left) continue;
      if (const auto right = symbol_of(text.substr(i))) visit(*left, *right);
    }
  }

  static bool has_blank_after_other(std::string_view text) {
    for (size_t at = text.find(kBlankMark, 1); at != std::string_view::npos;
         at = text.find(kBlankMark, at + 1)) {
      if (!text.substr(0, at).ends_with(kBlankMark)) return true;
    }
    return false;
  }

  std::vector<uint32_t> ranks_by_score() const {
    std::vector<int32_t> order(static_cast<size_t>(vocabulary_.size()));
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int32_t a, int32_t b) { return vocabulary_.score(a) > vocabulary_.score(b); });
    std::vector<uint32_t> ranks(order.size());
    uint32_t rank = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && vocabulary_.score(order[i]) != vocabulary_.score(order[i - 1])) ++rank;
      ranks[static_cast<size_t>(order[i])] = rank;
    }
    return ranks;
  }

  /// Ends a word: merges it and appends its ids.
  Status finish(WordMerger& merger, std::vector<int32_t>& ids) const {
    merger.merge();
    Status status;
    merger.for_each([&](int32_t symbol) {
      if (symbol < kCharacterSymbols) {
        ids.push_back(symbol);
        return;
      }
      std::string bytes;
      append_utf8(bytes, static_cast<uint32_t>(symbol - kCharacterSymbols));
      for (const char byte : bytes) {
        if (status) status = byte_tokens_.append(static_cast<uint8_t>(byte), ids);
      }
    });
    merger.clear();
    return status;
  }

  const Vocabulary& vocabulary_;
  ByteTokens byte_tokens_{};
  MergeTable merges_;
  // Where no token has a blank after another character, a text can be cut before each run of blanks: nothing
  // is merged across. This keeps the words short.
  bool words_end_before_blanks_ = true;
};

}  // namespace

Result<std::unique_ptr<TextEncoder>> make_sentence_piece_encoder(const Vocabulary& vocabulary) {
  auto encoder = std::make_unique<SentencePieceEncoder>(vocabulary);
  SOLI_RETURN_IF_ERROR(encoder->build());
  return encoder;
}

}  // namespace soli
