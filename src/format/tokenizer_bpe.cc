#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/utf8.h"
#include "format/pretokenizer.h"
#include "format/tokenizer_encoder.h"
#include "format/tokenizer_merge.h"

namespace soli {
namespace {

class BytePairEncoder final : public TextEncoder {
 public:
  BytePairEncoder(const Vocabulary& vocabulary, Pretokenizer pretokenizer, size_t merges)
      : vocabulary_(vocabulary), pretokenizer_(std::move(pretokenizer)), merges_(merges) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const auto& text = printable_bytes()[byte];
      byte_symbols_[byte] = intern(text);
      byte_tokens_.ids[byte] = vocabulary.find(text).value_or(vocabulary.unknown.value_or(-1));
    }
  }

  Status add_merge(uint32_t rank, std::string_view merge) {
    // A symbol may itself begin with a blank, as in llama.cpp.
    const size_t blank = merge.find(' ', 1);
    if (blank == std::string_view::npos || blank + 1 == merge.size()) {
      return fail(ErrorKind::kMalformed, "merge {} is '{}'; it must be two symbols with a blank between",
                  rank, printable(merge));
    }
    if (merge.size() > 2 * kMaxTokenBytes) {
      return fail(ErrorKind::kLimit, "merge {} has {} bytes; {} are allowed", rank, merge.size(),
                  2 * kMaxTokenBytes);
    }
    const std::string_view left = merge.substr(0, blank), right = merge.substr(blank + 1);
    const int32_t result = intern(std::string(left) + std::string(right));
    merges_.insert(intern(left), intern(right), {rank, result});
    return {};
  }

  Status encode(std::string_view text, bool, std::vector<int32_t>& ids) const override {
    SOLI_ASSIGN_OR_RETURN(const std::vector<TextSpan> words, pretokenizer_.split(text));
    WordMerger merger(merges_);
    for (const TextSpan span : words) {
      const std::string_view word = text.substr(span.begin, span.end - span.begin);
      if (const auto whole = whole_word(word)) {
        ids.push_back(*whole);
        continue;
      }
      merger.clear();
      for (const char byte : word) merger.add(byte_symbols_[static_cast<uint8_t>(byte)]);
      merger.merge();
      Status status;
      merger.for_each([&](int32_t symbol) {
        if (status) status = append(symbol, ids);
      });
      SOLI_RETURN_IF_ERROR(status);
    }
    return {};
  }

 private:
  /// The symbol of a text: its token, or for texts that only merges name an id past the vocabulary.
  int32_t intern(std::string_view text) {
    if (const auto id = vocabulary_.find(text)) return *id;
    const auto found = extra_ids_.find(text);
    if (found != extra_ids_.end()) return found->second;
    const int32_t id = vocabulary_.size() + static_cast<int32_t>(extra_texts_.size());
    extra_ids_.emplace(extra_texts_.emplace_back(text), id);
    return id;
  }

  std::optional<int32_t> whole_word(std::string_view word) const {
    if (!pretokenizer_.entry().whole_words_first || word.size() > vocabulary_.max_token_bytes()) return {};
    std::string printable;
    for (const char byte : word) printable += printable_bytes()[static_cast<uint8_t>(byte)];
    return vocabulary_.find(printable);
  }

  Status append(int32_t symbol, std::vector<int32_t>& ids) const {
    if (vocabulary_.contains(symbol)) {
      ids.push_back(symbol);
      return {};
    }
    const auto& text = extra_texts_[static_cast<size_t>(symbol - vocabulary_.size())];
    for (const char byte : bytes_of_printable(text)) {
      SOLI_RETURN_IF_ERROR(byte_tokens_.append(static_cast<uint8_t>(byte), ids));
    }
    return {};
  }

  const Vocabulary& vocabulary_;
  Pretokenizer pretokenizer_;
  MergeTable merges_;
  std::array<int32_t, 256> byte_symbols_{};
  ByteTokens byte_tokens_{};
  std::deque<std::string> extra_texts_;  // a deque, since extra_ids_ views its strings
  std::unordered_map<std::string_view, int32_t> extra_ids_;
};

}  // namespace

Status ByteTokens::append(uint8_t byte, std::vector<int32_t>& out) const {
  if (ids[byte] < 0) {
    return fail(ErrorKind::kUnsupported, "the vocabulary has no token for byte 0x{:02X} of the text", byte);
  }
  out.push_back(ids[byte]);
  return {};
}

Result<std::unique_ptr<TextEncoder>> make_byte_pair_encoder(const Vocabulary& vocabulary,
                                                            const TokenizerSpec& spec) {
  if (spec.merges.size() > kMaxVocabularyMerges) {
    return fail(ErrorKind::kLimit, "the vocabulary has {} merges; {} are allowed", spec.merges.size(),
                kMaxVocabularyMerges);
  }
  SOLI_ASSIGN_OR_RETURN(Pretokenizer pretokenizer, Pretokenizer::create(spec.pretokenizer));
  auto encoder = std::make_unique<BytePairEncoder>(vocabulary, std::move(pretokenizer), spec.merges.size());
  for (uint32_t rank = 0; rank < spec.merges.size(); ++rank) {
    SOLI_RETURN_IF_ERROR(encoder->add_merge(rank, spec.merges[rank]));
  }
  return encoder;
}

}  // namespace soli
