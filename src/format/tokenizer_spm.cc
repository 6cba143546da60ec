#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "format/tokenizer_encoder.h"

namespace soli {
namespace {

constexpr std::string_view kBlankMark = "\u2581";

/// A run of the text's bytes that is, or may become, one token.
struct Symbol {
  uint32_t begin;
  uint32_t bytes;  // 0 once merged into the symbol before it
  int32_t id;      // -1: no token
  uint32_t previous, next;
};

constexpr uint32_t kNone = ~uint32_t{0};

/// Two neighbours that are a token together.
struct Pair {
  float score;
  uint32_t left;
  uint32_t bytes;  // of both; any other length says that this pair is no more
  int32_t id;

  /// For a heap with the best on top: the highest score, the leftmost of equals.
  bool operator<(const Pair& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

class Merger {
 public:
  Merger(const Vocabulary& vocabulary, std::string_view text) : vocabulary_(vocabulary), text_(text) {
    for (uint32_t begin = 0; begin < text.size();) {
      const uint32_t bytes = utf8_front(text.substr(begin)).bytes;
      const auto i = static_cast<uint32_t>(symbols_.size());
      const uint32_t end = begin + bytes;
      symbols_.push_back({begin, bytes, vocabulary.find(text.substr(begin, bytes)).value_or(-1),
                          i == 0 ? kNone : i - 1, end == text.size() ? kNone : i + 1});
      begin = end;
    }
  }

  void merge() {
    for (uint32_t i = 0; i + 1 < symbols_.size(); ++i) {
      if (const Pair pair = pair_at(i); pair.id >= 0) queue_.push_back(pair);
    }
    std::make_heap(queue_.begin(), queue_.end());
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end());
      const Pair best = queue_.back();
      queue_.pop_back();
      apply(best);
    }
  }

  Status append_ids(const ByteTokens& byte_tokens, std::vector<int32_t>& ids) const {
    for (uint32_t i = symbols_.empty() ? kNone : 0; i != kNone; i = symbols_[i].next) {
      const Symbol& symbol = symbols_[i];
      if (symbol.id >= 0) {
        ids.push_back(symbol.id);
        continue;
      }
      for (const char byte : text_.substr(symbol.begin, symbol.bytes)) {
        SOLI_RETURN_IF_ERROR(byte_tokens.append(static_cast<uint8_t>(byte), ids));
      }
    }
    return {};
  }

 private:
  /// The pair of a symbol and the next one, which there must be; id -1 if they are no token.
  Pair pair_at(uint32_t left) const {
    const Symbol& symbol = symbols_[left];
    const uint32_t bytes = symbol.bytes + symbols_[symbol.next].bytes;
    if (bytes > vocabulary_.max_token_bytes()) return {0, left, bytes, -1};
    const int32_t id = vocabulary_.find(text_.substr(symbol.begin, bytes)).value_or(-1);
    return {id < 0 ? 0 : vocabulary_.score(id), left, bytes, id};
  }
  void push(uint32_t left) {
    const Pair pair = pair_at(left);
    if (pair.id < 0) return;
    queue_.push_back(pair);
    std::push_heap(queue_.begin(), queue_.end());
  }
  void apply(const Pair& pair) {
    Symbol& left = symbols_[pair.left];
    if (left.bytes == 0 || left.next == kNone) return;
    Symbol& right = symbols_[left.next];
    if (left.bytes + right.bytes != pair.bytes) return;
    left.bytes = pair.bytes;
    left.id = pair.id;
    right.bytes = 0;
    left.next = right.next;
    if (left.next != kNone) symbols_[left.next].previous = pair.left;
    if (left.previous != kNone) push(left.previous);
    if (left.next != kNone) push(pair.left);
  }

  const Vocabulary& vocabulary_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::vector<Pair> queue_;
};

class SentencePieceEncoder final : public TextEncoder {
 public:
  explicit SentencePieceEncoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      auto id = vocabulary.find(fmt::format("<0x{:02X}>", byte));
      if (!id) id = vocabulary.find(std::string(1, static_cast<char>(byte)));
      byte_tokens_.ids[byte] = id ? *id : vocabulary.unknown.value_or(-1);
    }
  }

  Status encode(std::string_view text, bool begins, std::vector<int32_t>& ids) const override {
    std::string marked;
    marked.reserve(text.size() + kBlankMark.size());
    if (begins && vocabulary_.add_space_prefix) marked += kBlankMark;
    for (const char byte : text) {
      if (byte == ' ') {
        marked += kBlankMark;
      } else {
        marked += byte;
      }
    }
    Merger merger(vocabulary_, marked);
    merger.merge();
    return merger.append_ids(byte_tokens_, ids);
  }

 private:
  const Vocabulary& vocabulary_;
  ByteTokens byte_tokens_{};
};

}  // namespace

std::unique_ptr<TextEncoder> make_sentence_piece_encoder(const Vocabulary& vocabulary) {
  return std::make_unique<SentencePieceEncoder>(vocabulary);
}

}  // namespace soli
