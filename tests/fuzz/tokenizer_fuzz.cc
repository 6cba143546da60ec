// Any text comes back from its ids, streamed or not; any vocabulary is refused or works.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "format/pretokenizer.h"
#include "format/tokenizer.h"
#include "fuzz/stream_check.h"
#include "support/tokenizer_specs.h"

namespace {

using soli::Tokenizer;
using soli::TokenizerSpec;

std::unique_ptr<Tokenizer> create(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::create(std::move(spec));
  SOLI_CHECK(tokenizer.has_value(), "{}", tokenizer.error().message);
  return *std::move(tokenizer);
}

/// One tokenizer of byte-pair merges for each pre-tokenizer.
const std::vector<std::unique_ptr<Tokenizer>>& byte_pair_tokenizers() {
  static const auto tokenizers = [] {
    std::vector<std::unique_ptr<Tokenizer>> out;
    for (const soli::PretokenizerEntry& entry : soli::pretokenizer_table()) {
      auto spec = soli::tokenizer_test::byte_pair_spec({"a a", "aa aa", "Ġ a", "Ġ Ġ", "Ċ Ċ", "1 2", "Ã ©"},
                                                       {"<|a|>", "<|a|><", "|>|"});
      spec.pretokenizer = entry.names.front();
      spec.add_bos = false;
      out.push_back(create(std::move(spec)));
    }
    return out;
  }();
  return tokenizers;
}

void check_round_trip(const Tokenizer& tokenizer, std::string_view text, bool parse_special) {
  const auto ids = tokenizer.encode(text, {.add_special = false, .parse_special = parse_special});
  SOLI_CHECK(ids.has_value(), "{}", ids.error().message);
  const soli::DecodeOptions options{.render_special = true};
  SOLI_CHECK(tokenizer.decode(*ids, options) == soli::replace_invalid_utf8(text));
  soli::fuzz::check_stream(tokenizer, *ids, options);
}

/// The input's lines are tokens, its first bytes their number, kind and types.
void check_vocabulary(std::string_view data) {
  if (data.size() < 4) return;
  TokenizerSpec spec;
  spec.kind = data[0] & 1 ? soli::TokenizerKind::kSentencePiece : soli::TokenizerKind::kBytePairMerges;
  const auto& table = soli::pretokenizer_table();
  spec.pretokenizer = table[static_cast<uint8_t>(data[1]) % table.size()].names.front();
  if (data[0] & 2) spec.bos = data[2];
  if (data[0] & 4) spec.eos = data[3];
  if (data[0] & 8) spec.add_bos = true;
  if (data[0] & 16) spec.special_tokens_strip_right = true;
  std::string_view rest = data.substr(4);
  std::vector<std::string> lines;
  for (size_t end; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
    lines.emplace_back(rest.substr(0, end));
  }
  for (const std::string& line : lines) {
    if (!line.empty() && line.front() == '#') {
      spec.merges.push_back(line.substr(1));
      continue;
    }
    spec.tokens.push_back(line.empty() ? "" : line.substr(1));
    spec.types.push_back(line.empty() ? 1 : line.front() % 8);
    spec.scores.push_back(line.empty() ? 0 : static_cast<float>(line.size() % 3));
  }
  const auto tokenizer = Tokenizer::create(std::move(spec));
  if (!tokenizer) return;
  for (const bool parse_special : {false, true}) {
    const auto ids = (*tokenizer)->encode(rest, {.parse_special = parse_special});
    if (!ids) continue;
    for (const int32_t id : *ids) SOLI_CHECK(id >= 0 && id < (*tokenizer)->vocab_size());
    soli::fuzz::check_stream(**tokenizer, *ids, {});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] >= 0x80) {
    check_vocabulary(text);
    return 0;
  }
  const auto& tokenizers = byte_pair_tokenizers();
  check_round_trip(*tokenizers[data[0] / 2 % tokenizers.size()], text, data[0] & 1);
  static const auto sentence_piece =
      create(soli::tokenizer_test::sentence_piece_spec({"▁a", "aa", "▁▁", "▁", "a", "é"}));
  std::string blanks = soli::replace_invalid_utf8(text);
  // U+2581 is how a blank is written there, so it comes back as one.
  for (size_t at; (at = blanks.find("▁")) != std::string::npos;) blanks.replace(at, 3, " ");
  check_round_trip(*sentence_piece, blanks, false);
  return 0;
}
