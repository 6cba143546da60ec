#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/check.h"
#include "base/utf8.h"
#include "format/pretokenizer.h"
#include "format/tokenizer_encoder.h"

namespace soli {
namespace {

/// Pairs of symbols to rank and result: open addressing, at most half full.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    int32_t result;
  };

  explicit MergeTable(size_t merges) {
    size_t slots = 16;
    while (slots < 2 * merges) slots *= 2;
    slots_.resize(slots);
  }

  /// The first rank given to a pair is the one that counts.
  void insert(int32_t left, int32_t right, Merge merge) {
    Slot& slot = slots_[position(key(left, right))];
    if (slot.key == kFree) slot = {key(left, right), merge};
  }
  const Merge* find(int32_t left, int32_t right) const {
    const Slot& slot = slots_[position(key(left, right))];
    return slot.key == kFree ? nullptr : &slot.merge;
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};  // no pair: symbols are not negative
  struct Slot {
    uint64_t key = kFree;
    Merge merge{};
  };

  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t position(uint64_t key) const {
    uint64_t hash = key;  // the finaliser of SplitMix64
    hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9u;
    hash = (hash ^ hash >> 27) * 0x94D049BB133111EBu;
    size_t slot = (hash ^ hash >> 31) & (slots_.size() - 1);
    while (slots_[slot].key != key && slots_[slot].key != kFree) slot = (slot + 1) & (slots_.size() - 1);
    return slot;
  }

  std::vector<Slot> slots_;
};

/// Merges within one word. Its memory is kept from word to word.
class WordMerger {
 public:
  explicit WordMerger(const MergeTable& merges) : merges_(merges) {}

  void begin() { symbols_.clear(); }
  void add(int32_t symbol) { symbols_.push_back({symbol, kNone, kNone}); }
  /// Merges the pair of the lowest rank, the leftmost of equals, until no pair can be merged.
  void merge() {
    const auto n = static_cast<uint32_t>(symbols_.size());
    queue_.clear();
    for (uint32_t i = 0; i < n; ++i) {
      symbols_[i].previous = i == 0 ? kNone : i - 1;
      symbols_[i].next = i + 1 == n ? kNone : i + 1;
      if (i + 1 == n) continue;
      if (const auto* m = merges_.find(symbols_[i].id, symbols_[i + 1].id))
        queue_.push_back(entry(m->rank, i));
    }
    std::make_heap(queue_.begin(), queue_.end(), std::greater<>());
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
      const uint64_t first = queue_.back();
      queue_.pop_back();
      apply(static_cast<uint32_t>(first >> 32), static_cast<uint32_t>(first));
    }
  }
  template <typename F>
  void for_each(F&& visit) const {
    for (uint32_t i = symbols_.empty() ? kNone : 0; i != kNone; i = symbols_[i].next) visit(symbols_[i].id);
  }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Symbol {
    int32_t id;  // -1 once merged into the symbol before it
    uint32_t previous, next;
  };

  static uint64_t entry(uint32_t rank, uint32_t left) { return static_cast<uint64_t>(rank) << 32 | left; }

  void apply(uint32_t rank, uint32_t left) {
    Symbol& symbol = symbols_[left];
    if (symbol.id < 0 || symbol.next == kNone) return;
    Symbol& right = symbols_[symbol.next];
    const auto* merge = merges_.find(symbol.id, right.id);
    // Since a rank belongs to one pair, another rank says that this entry's pair is no more.
    if (merge == nullptr || merge->rank != rank) return;
    symbol.id = merge->result;
    right.id = -1;
    symbol.next = right.next;
    if (symbol.next != kNone) {
      symbols_[symbol.next].previous = left;
      push(left);
    }
    if (symbol.previous != kNone) push(symbol.previous);
  }
  void push(uint32_t left) {
    const auto* merge = merges_.find(symbols_[left].id, symbols_[symbols_[left].next].id);
    if (merge == nullptr) return;
    queue_.push_back(entry(merge->rank, left));
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  }

  const MergeTable& merges_;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> queue_;  // heap of entries, the lowest on top
};

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
      merger.begin();
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
