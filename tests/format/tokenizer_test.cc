#include "format/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "format/tokenizer_merge.h"
#include "format/tokenizer_special.h"
#include "format/tokenizer_test_support.h"
#include "support/tokenizer_specs.h"

namespace soli {
namespace {

using tokenizer_test::byte_pair_spec;
using tokenizer_test::make_tokenizer;
using tokenizer_test::sentence_piece_spec;
using Ids = std::vector<int32_t>;

/// The ids as texts, which are easier to read.
std::vector<std::string> texts(const Tokenizer& tokenizer, const std::string& text,
                               EncodeOptions options = {}) {
  const auto ids = tokenizer.encode(text, options);
  EXPECT_TRUE(ids) << ids.error().message;
  std::vector<std::string> out;
  for (const int32_t id : *ids) out.emplace_back(tokenizer.token_text(id));
  return out;
}

using Texts = std::vector<std::string>;

TEST(BytePairTokenizer, MergesTheLowestRankFirstThenTheLeftmost) {
  const auto tokenizer = make_tokenizer(byte_pair_spec({"b c", "a b", "a a", "aa a"}, {}));
  EXPECT_EQ(texts(*tokenizer, "abc"), (Texts{"a", "bc"}));
  EXPECT_EQ(texts(*tokenizer, "aaaaa"), (Texts{"aa", "aaa"}));
}

TEST(BytePairTokenizer, AMergeWhoseResultIsNoTokenEndsAsBytes) {
  TokenizerSpec spec = byte_pair_spec({"a b"}, {});
  spec.merges = {"a b", "x y", "xy z"};  // xy and xyz are no tokens
  const auto tokenizer = make_tokenizer(std::move(spec));
  EXPECT_EQ(texts(*tokenizer, "abxyz"), (Texts{"ab", "x", "y", "z"}));
}

TEST(BytePairTokenizer, BytesAreCutByWordsNotAcross) {
  const auto tokenizer = make_tokenizer(byte_pair_spec({"a Ġ", "Ġ b"}, {}));
  EXPECT_EQ(texts(*tokenizer, "a b"), (Texts{"a", "Ġb"}));
}

TEST(BytePairTokenizer, SomePretokenizersTakeWholeWordsFirst) {
  TokenizerSpec spec = byte_pair_spec({"a b", "c d"}, {"<s>"});
  spec.tokens.push_back("abcd");  // which no merge reaches
  spec.types.push_back(1);
  TokenizerSpec whole = spec;
  whole.pretokenizer = "llama-bpe";
  whole.bos = static_cast<int64_t>(spec.tokens.size()) - 2;
  EXPECT_EQ(texts(*make_tokenizer(std::move(spec)), "abcd"), (Texts{"ab", "cd"}));
  const auto tokenizer = make_tokenizer(std::move(whole));
  EXPECT_EQ(texts(*tokenizer, "abcd"), (Texts{"<s>", "abcd"})) << "and they add BOS by themselves";
  EXPECT_EQ(texts(*tokenizer, "abcd", {.add_special = false}), (Texts{"abcd"}));
}

TEST(BytePairTokenizer, AByteWithoutATokenIsAnErrorThatNamesIt) {
  TokenizerSpec spec;
  spec.tokens = {"a", "b"};
  const auto tokenizer = make_tokenizer(std::move(spec));
  EXPECT_TRUE(tokenizer->encode("ab"));
  const auto failed = tokenizer->encode("abA");
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("0x41"), std::string::npos) << failed.error().message;
}

TEST(BytePairTokenizer, TextsAreBytes) {
  const auto tokenizer = make_tokenizer(byte_pair_spec({}, {}));
  std::string all;
  for (int i = 1; i < 128; ++i) all.push_back(static_cast<char>(i));
  all += " é中😁 \u200D ";
  const auto ids = tokenizer->encode(all);
  EXPECT_EQ(ids->size(), all.size());
  EXPECT_EQ(tokenizer->decode(*ids), all);
}

TEST(Tokenizer, BytesThatAreNotUtf8CountAsReplacements) {
  for (TokenizerSpec spec : {byte_pair_spec({}, {}), sentence_piece_spec({"▁"})}) {
    spec.add_bos = false;
    const auto tokenizer = make_tokenizer(std::move(spec));
    const auto ids = tokenizer->encode("a\xFFz\xE4\xBD");
    ASSERT_TRUE(ids);
    EXPECT_EQ(tokenizer->decode(*ids), "a\uFFFDz\uFFFD");
  }
}

TEST(SentencePieceTokenizer, MergesByScore) {
  const auto tokenizer = make_tokenizer(sentence_piece_spec({"bc", "ab", "▁", "a", "b", "c"}));
  EXPECT_EQ(texts(*tokenizer, "abc"), (Texts{"<s>", "▁", "a", "bc"}));
}

TEST(SentencePieceTokenizer, TheLeftmostOfEqualScores) {
  TokenizerSpec spec = sentence_piece_spec({"▁", "ab", "ba"});
  spec.scores.clear();  // all 0
  spec.add_space_prefix = false;
  spec.add_bos = false;
  EXPECT_EQ(texts(*make_tokenizer(std::move(spec)), "babab"), (Texts{"ba", "ba", "<0x62>"}));
}

TEST(SentencePieceTokenizer, WhatIsNoTokenBecomesBytes) {
  const auto tokenizer = make_tokenizer(sentence_piece_spec({"▁"}));
  EXPECT_EQ(texts(*tokenizer, "é"), (Texts{"<s>", "▁", "<0xC3>", "<0xA9>"}));
  EXPECT_EQ(tokenizer->decode(*tokenizer->encode("é 中", {.add_special = false})), "é 中");
}

TEST(SentencePieceTokenizer, CutsIntoWordsOnlyWhereNoTokenCrosses) {
  // With "a▁b" a token, the blank does not end a word.
  const auto crossing = make_tokenizer(sentence_piece_spec({"▁b", "a▁b", "▁", "a", "b"}));
  EXPECT_EQ(texts(*crossing, "a b", {.add_special = false}), (Texts{"▁", "a▁b"}));
  const auto plain = make_tokenizer(sentence_piece_spec({"▁b", "▁▁", "▁", "a", "b"}));
  EXPECT_EQ(texts(*plain, "a b   b", {.add_special = false}), (Texts{"▁", "a", "▁b", "▁▁", "▁b"}));
}

TEST(Tokenizer, SpecialTokensAreFoundOnlyWhenAskedFor) {
  TokenizerSpec spec = byte_pair_spec({}, {"<|im_start|>"});
  spec.tokens.push_back("[tool]");
  spec.types.push_back(static_cast<int32_t>(TokenType::kUserDefined));
  const auto tokenizer = make_tokenizer(std::move(spec));
  const std::string text = "<|im_start|>[tool]";
  EXPECT_EQ(texts(*tokenizer, text, {.parse_special = true}), (Texts{"<|im_start|>", "[tool]"}));
  EXPECT_EQ(texts(*tokenizer, text).size(), 13u) << "user-defined tokens are found always";
  EXPECT_EQ(tokenizer->decode(*tokenizer->encode(text)), text);
}

TEST(Tokenizer, TextsThatMeanControlAreControlWhateverTheFileSays) {
  TokenizerSpec spec = byte_pair_spec({}, {});
  for (const char* text : {"</s>", "<|im_end|>", "<|fim_prefix|>"}) {
    spec.tokens.push_back(text);
    spec.types.push_back(static_cast<int32_t>(TokenType::kUserDefined));
  }
  const auto tokenizer = make_tokenizer(std::move(spec));
  const int32_t end = *tokenizer->find_token("</s>");
  EXPECT_TRUE(tokenizer->is_control(end));
  EXPECT_EQ(tokenizer->piece(end, false), "");
  EXPECT_EQ(tokenizer->piece(end, true), "</s>");
  EXPECT_EQ(tokenizer->encode("</s>")->size(), 4u);
  EXPECT_EQ(tokenizer->encode("</s>", {.parse_special = true}), Ids{end});
  EXPECT_TRUE(tokenizer->is_end_of_generation(end));
  EXPECT_TRUE(tokenizer->is_end_of_generation(*tokenizer->find_token("<|im_end|>")));
  EXPECT_FALSE(tokenizer->is_end_of_generation(*tokenizer->find_token("<|fim_prefix|>")));
  EXPECT_EQ(tokenizer->eot(), tokenizer->find_token("<|im_end|>"));
  EXPECT_FALSE(tokenizer->is_end_of_generation(-1));
}

TEST(Tokenizer, AnAnswerOfSeveralPartsDoesNotEndAtTheEndOfAPart) {
  const Texts controls = {"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>"};
  TokenizerSpec spec = byte_pair_spec({}, controls);
  spec.eos = static_cast<int64_t>(spec.tokens.size()) - 2;
  const auto tokenizer = make_tokenizer(std::move(spec));
  EXPECT_EQ(tokenizer->end_of_generation_ids(),
            (Ids{*tokenizer->find_token("<|return|>"), *tokenizer->find_token("<|call|>")}));
  const int32_t channel = *tokenizer->find_token("<|channel|>");
  EXPECT_EQ(tokenizer->piece(channel, false), "<|channel|>") << "a part of the answer's text";
  EXPECT_EQ(tokenizer->encode("<|channel|>")->size(), 11u) << "but a user's text does not become it";
  EXPECT_EQ(tokenizer->encode("<|channel|>", {.parse_special = true}), Ids{channel});
}

TEST(Tokenizer, AddsBosAndEosAsTheFileSays) {
  TokenizerSpec spec = sentence_piece_spec({"▁", "a"});
  EXPECT_EQ(texts(*make_tokenizer(spec), "a"), (Texts{"<s>", "▁", "a"}))
      << "SentencePiece: BOS unless told otherwise";
  EXPECT_EQ(texts(*make_tokenizer(spec), ""), (Texts{"<s>"}));
  spec.add_bos = false;
  spec.add_eos = true;
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(texts(*tokenizer, "a"), (Texts{"▁", "a", "</s>"}));
  EXPECT_TRUE(tokenizer->adds_eos());
  EXPECT_FALSE(tokenizer->adds_bos());
  // A text that begins with BOS, when special tokens are added too, gets two: the caller decides.
  spec.add_bos = true;
  EXPECT_EQ(texts(*make_tokenizer(spec), "<s>a", {.add_special = false, .parse_special = true}),
            (Texts{"<s>", "▁", "a"}));
}

TEST(Tokenizer, Phi3SwallowsBlanksAfterSpecialTokens) {
  TokenizerSpec spec = sentence_piece_spec({"▁a", "▁", "a"});
  spec.tokens.push_back("<|user|>");
  spec.scores.push_back(0);
  spec.types.push_back(static_cast<int32_t>(TokenType::kControl));
  spec.add_bos = false;
  const std::string text = "<|user|> \n a<s> a";
  const EncodeOptions options{.parse_special = true};
  spec.special_tokens_strip_right = true;
  EXPECT_EQ(texts(*make_tokenizer(spec), text, options), (Texts{"<|user|>", "▁a", "<s>", "▁", "▁a"}));
  spec.special_tokens_strip_right = false;
  EXPECT_EQ(texts(*make_tokenizer(spec), "<|user|> a", options), (Texts{"<|user|>", "▁", "▁a"}));
}

TEST(Tokenizer, DescribesItself) {
  EXPECT_EQ(make_tokenizer(byte_pair_spec({}, {}))->description(), "BPE, pre-tokenizer gpt-2, 256 tokens");
  TokenizerSpec large = byte_pair_spec({}, {});
  large.tokens.resize(151'936);
  large.types.clear();
  EXPECT_EQ(make_tokenizer(std::move(large))->description(), "BPE, pre-tokenizer gpt-2, 151,936 tokens");
  EXPECT_EQ(make_tokenizer(sentence_piece_spec({}))->description(), "SentencePiece, 259 tokens");
}

struct Random {
  uint32_t state = 3;
  uint32_t below(uint32_t n) {
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % n;
  }
  std::string text(uint32_t length, uint32_t letters) {
    std::string out;
    for (uint32_t i = 0; i < length; ++i) out.push_back(static_cast<char>('a' + below(letters)));
    return out;
  }
};

/// A part of a text, with a mark before special tokens.
std::string marked(bool special, std::string_view part) {
  std::string out(special ? 1 : 0, '*');
  out.append(part);
  return out;
}

/// What llama.cpp does: each token in turn, the longest first, cuts all text that is left.
std::vector<std::string> split_in_turn(const std::string& text, Texts specials) {
  std::stable_sort(specials.begin(), specials.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::vector<std::pair<std::string, bool>> parts = {{text, false}};
  for (const std::string& special : specials) {
    std::vector<std::pair<std::string, bool>> next;
    for (auto [part, done] : parts) {
      for (size_t at; !done && (at = part.find(special)) != std::string::npos;) {
        if (at > 0) next.emplace_back(part.substr(0, at), false);
        next.emplace_back(special, true);
        part = part.substr(at + special.size());
      }
      if (!part.empty()) next.emplace_back(part, done);
    }
    parts = std::move(next);
  }
  Texts out;
  for (const auto& [part, done] : parts) out.push_back(marked(done, part));
  return out;
}

TEST(SpecialTokenFinder, EqualsCuttingByEachTokenInTurn) {
  Random random;
  for (int round = 0; round < 400; ++round) {
    Texts specials;
    for (uint32_t i = 0, n = 1 + random.below(6); i < n; ++i) {
      const std::string special = random.text(1 + random.below(6), 2);
      if (std::find(specials.begin(), specials.end(), special) == specials.end()) specials.push_back(special);
    }
    TokenizerSpec spec;
    spec.tokens = specials;
    spec.types.assign(specials.size(), static_cast<int32_t>(TokenType::kControl));
    const auto vocabulary = Vocabulary::build(spec);
    ASSERT_TRUE(vocabulary);
    const auto finder = SpecialTokenFinder::create(*vocabulary, false);
    ASSERT_TRUE(finder);
    const std::string text = random.text(random.below(40), 3);
    Texts found;
    for (const TextFragment& f : finder->split(text, true)) {
      found.push_back(
          marked(f.id >= 0, std::string_view(text).substr(f.span.begin, f.span.end - f.span.begin)));
    }
    EXPECT_EQ(found, split_in_turn(text, specials)) << text;
  }
}

TEST(WordMerger, EqualsMergingThePairOfLowestRankOverAndOver) {
  Random random;
  for (int round = 0; round < 400; ++round) {
    std::map<std::pair<int32_t, int32_t>, MergeTable::Merge> reference;
    MergeTable table(40);
    const bool equal_ranks = round % 2 == 0;  // as scores may be
    for (uint32_t i = 0; i < 40; ++i) {
      const auto left = static_cast<int32_t>(random.below(8)), right = static_cast<int32_t>(random.below(8));
      const MergeTable::Merge merge{equal_ranks ? random.below(4) : i, static_cast<int32_t>(random.below(8))};
      table.insert(left, right, merge);
      reference.try_emplace({left, right}, merge);
    }
    std::vector<int32_t> symbols;
    for (uint32_t i = 0, n = random.below(60); i < n; ++i)
      symbols.push_back(static_cast<int32_t>(random.below(8)));
    WordMerger merger(table);
    for (const int32_t symbol : symbols) merger.add(symbol);
    merger.merge();
    std::vector<int32_t> merged;
    merger.for_each([&](int32_t symbol) { merged.push_back(symbol); });
    while (true) {
      size_t best = symbols.size();
      uint32_t rank = UINT32_MAX;
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto found = reference.find({symbols[i], symbols[i + 1]});
        if (found != reference.end() && found->second.rank < rank) {
          best = i;
          rank = found->second.rank;
        }
      }
      if (best == symbols.size()) break;
      symbols[best] = reference.at({symbols[best], symbols[best + 1]}).result;
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    EXPECT_EQ(merged, symbols);
  }
}

}  // namespace
}  // namespace soli
