// Vocabularies and texts that want to do harm: a clear error, or a defined result.

#include <gtest/gtest.h>

#include <limits>

#include "format/tokenizer_test_support.h"
#include "support/small_stack.h"
#include "support/tokenizer_specs.h"

namespace soli {
namespace {

using namespace tokenizer_test;

/// The error of creating from this spec, or "".
std::string spec_error_of(TokenizerSpec spec) {
  const auto tokenizer = Tokenizer::create(std::move(spec));
  return tokenizer ? "" : tokenizer.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(HostileVocabulary, NoTokenOrOne) {
  for (const auto kind : {TokenizerKind::kBytePairMerges, TokenizerKind::kSentencePiece}) {
    TokenizerSpec spec;
    spec.kind = kind;
    EXPECT_TRUE(contains(spec_error_of(spec), "no tokens"));
    spec.tokens = {"a"};  // the default ids of <s> and </s> lie outside
    const auto tokenizer = Tokenizer::create(spec);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_FALSE((*tokenizer)->bos());
    EXPECT_FALSE((*tokenizer)->eos());
    EXPECT_FALSE((*tokenizer)->adds_bos());
    EXPECT_TRUE((*tokenizer)->encode("a"));
    EXPECT_EQ((*tokenizer)->piece(1, true), "");
    EXPECT_EQ((*tokenizer)->piece(-1, true), "");
    EXPECT_EQ((*tokenizer)->token_text(std::numeric_limits<int32_t>::min()), "");
    EXPECT_FALSE((*tokenizer)->is_control(std::numeric_limits<int32_t>::max()));
  }
}

TEST(HostileVocabulary, SpecialIdsOutside) {
  for (const int64_t id :
       {int64_t{-1}, int64_t{256}, int64_t{1} << 32, std::numeric_limits<int64_t>::min()}) {
    TokenizerSpec spec = byte_pair_spec({}, {});
    spec.bos = id;
    EXPECT_TRUE(contains(spec_error_of(spec), "BOS token is " + std::to_string(id))) << spec_error_of(spec);
    spec.bos.reset();
    spec.eom = id;
    EXPECT_TRUE(contains(spec_error_of(spec), "EOM token is " + std::to_string(id))) << spec_error_of(spec);
  }
  TokenizerSpec spec = byte_pair_spec({}, {});
  spec.add_bos = true;
  EXPECT_TRUE(contains(spec_error_of(spec), "names no BOS token"));
}

TEST(HostileVocabulary, ListsOfOtherLengthsAndValues) {
  TokenizerSpec spec = sentence_piece_spec({"a"});
  spec.scores.pop_back();
  EXPECT_TRUE(contains(spec_error_of(spec), "259 scores")) << spec_error_of(spec);
  spec = sentence_piece_spec({"a"});
  spec.types.push_back(1);
  EXPECT_TRUE(contains(spec_error_of(spec), "261 token types")) << spec_error_of(spec);
  for (const int32_t type : {-1, 7, std::numeric_limits<int32_t>::min()}) {
    spec = sentence_piece_spec({"a"});
    spec.types[5] = type;
    EXPECT_TRUE(contains(spec_error_of(spec), "token 5 is " + std::to_string(type))) << spec_error_of(spec);
  }
  spec = sentence_piece_spec({"a"});
  spec.scores[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(contains(spec_error_of(spec), "score of token 7")) << spec_error_of(spec);
  spec.scores[7] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(spec_error_of(spec), "");
}

TEST(HostileVocabulary, MergesThatAreNone) {
  for (const std::string merge : {"", "a", " ", "a ", " a", "ab\xFF", "\n"}) {
    TokenizerSpec spec = byte_pair_spec({"a b"}, {});
    spec.merges.push_back(merge);
    EXPECT_TRUE(contains(spec_error_of(spec), "merge 1 is ")) << merge;
  }
  // Symbols that are no tokens are allowed: such a merge ends as bytes.
  TokenizerSpec spec = byte_pair_spec({"a b"}, {});
  spec.merges = {"no such", "\xFF \xFE", "a b", "a b", "ab ab"};
  const auto tokenizer = Tokenizer::create(std::move(spec));
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ((*tokenizer)->decode(*(*tokenizer)->encode("ababnosuch")), "ababnosuch");
}

TEST(HostileVocabulary, ByteTokensThatAreNone) {
  TokenizerSpec spec = sentence_piece_spec({"▁"});
  for (const char* text : {"<0x-1>", "<0xZZ>", "<0x>", "<0x", "<0x1234>", "<0x 1>", ""}) {
    spec.tokens.push_back(text);
    spec.scores.push_back(0);
    spec.types.push_back(static_cast<int32_t>(TokenType::kByte));
  }
  const auto tokenizer = Tokenizer::create(std::move(spec));
  ASSERT_TRUE(tokenizer);
  for (int32_t id = 260; id < (*tokenizer)->vocab_size(); ++id) {
    EXPECT_EQ((*tokenizer)->piece(id, false), (*tokenizer)->token_text(id)) << "it stands for itself";
  }
}

TEST(HostileVocabulary, EqualAndEmptyAndInvalidTokens) {
  TokenizerSpec spec = byte_pair_spec({"a b"}, {});
  for (const char* text : {"ab", "", "", "\xFF\xC3", "a\xED\xA0\x80"}) {
    spec.tokens.push_back(text);
    spec.types.push_back(static_cast<int32_t>(TokenType::kControl));
  }
  const auto tokenizer = Tokenizer::create(std::move(spec));
  ASSERT_TRUE(tokenizer);
  EXPECT_EQ((*tokenizer)->encode("ab"), std::vector<int32_t>{256}) << "the lower id of two equal texts";
  EXPECT_TRUE((*tokenizer)->encode("ab\xFF\xC3", {.parse_special = true}));
}

TEST(HostileVocabulary, TooLongOrTooMany) {
  TokenizerSpec spec = byte_pair_spec({}, {std::string(kMaxSpecialTokenBytes + 1, 'x')});
  EXPECT_TRUE(contains(spec_error_of(spec), "special token 256 has 257 bytes")) << spec_error_of(spec);
  spec = byte_pair_spec({}, {});
  spec.tokens[3] = std::string(kMaxTokenBytes + 1, 'x');
  EXPECT_TRUE(contains(spec_error_of(spec), "token 3 has 4097 bytes")) << spec_error_of(spec);
  spec = byte_pair_spec({}, {});
  spec.types.clear();
  spec.tokens.resize(kMaxVocabularyTokens + 1);
  EXPECT_TRUE(contains(spec_error_of(spec), "1048577 tokens")) << spec_error_of(spec);
  // Every part of every token is a token: the pairs are limited.
  std::vector<std::string> nested;
  for (size_t i = 1; i <= 3000; ++i) nested.push_back(std::string(i, 'x'));
  EXPECT_TRUE(contains(spec_error_of(sentence_piece_spec(nested)), "are allowed"));
}

TEST(HostileVocabulary, UnknownPretokenizer) {
  TokenizerSpec spec = byte_pair_spec({}, {});
  spec.pretokenizer = "nonesuch";
  EXPECT_TRUE(contains(spec_error_of(spec), "nonesuch"));
}

GgufMetadata metadata_with(const std::string& key, GgufValue value) {
  std::vector<GgufMetadata::Entry> entries = {
      {"tokenizer.ggml.model", GgufValue::of_string("gpt2")},
      {"tokenizer.ggml.tokens", GgufValue::of_strings(std::vector<std::string>{"a", "b", "ab"})},
      {"tokenizer.ggml.merges", GgufValue::of_strings(std::vector<std::string>{"a b"})}};
  std::erase_if(entries, [&](const auto& entry) { return entry.key == key; });
  entries.push_back({key, std::move(value)});
  return *GgufMetadata::build("test.gguf", std::move(entries));
}

TEST(TokenizerSpec, WrongTypesAreErrorsThatNameTheKey) {
  const std::vector<std::pair<std::string, GgufValue>> wrong = {
      {"tokenizer.ggml.model", GgufValue::of_uint32(1)},
      {"tokenizer.ggml.pre", GgufValue::of_uint32(1)},
      {"tokenizer.ggml.tokens", GgufValue::of_uint32s(std::vector<uint32_t>{1, 2})},
      {"tokenizer.ggml.tokens", GgufValue::of_string("a")},
      {"tokenizer.ggml.merges", GgufValue::of_floats(std::vector<float>{1})},
      {"tokenizer.ggml.scores", GgufValue::of_strings(std::vector<std::string>{"1"})},
      {"tokenizer.ggml.scores", GgufValue::of_float(1)},
      {"tokenizer.ggml.token_type", GgufValue::of_floats(std::vector<float>{1, 1, 1})},
      {"tokenizer.ggml.bos_token_id", GgufValue::of_string("1")},
      {"tokenizer.ggml.bos_token_id", GgufValue::of_int32(-7)},
      {"tokenizer.ggml.eos_token_id", GgufValue::of_uint32(3)},
      {"tokenizer.ggml.eos_token_id", GgufValue::of_uint64(uint64_t{1} << 32)},
      {"tokenizer.ggml.add_bos_token", GgufValue::of_uint32(1)}};
  for (const auto& [key, value] : wrong) {
    const auto spec = read_tokenizer_spec(metadata_with(key, value));
    ASSERT_FALSE(spec) << key;
    EXPECT_TRUE(contains(spec.error().message, key)) << spec.error().message;
  }
}

TEST(TokenizerSpec, ReadsWhatIsThere) {
  const auto plain = read_tokenizer_spec(metadata_with("general.name", GgufValue::of_string("Phi-3.5-MoE")));
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->pretokenizer, "default") << "as llama.cpp takes a missing name";
  EXPECT_TRUE(plain->special_tokens_strip_right);
  EXPECT_FALSE(plain->bos);
  const auto none = read_tokenizer_spec(metadata_with(
      "tokenizer.ggml.bos_token_id", GgufValue::of_uint32(std::numeric_limits<uint32_t>::max())));
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->bos) << "-1 as an unsigned number says that there is none";
  const auto other = read_tokenizer_spec(metadata_with("tokenizer.ggml.model", GgufValue::of_string("bert")));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::kUnsupported);
  EXPECT_TRUE(contains(other.error().message, "bert"));
}

TEST(HostileText, AMegabyteOfOneCharacterOnASmallStack) {
  for (const char* name : {"gpt-2", "qwen2", "deepseek-v3", "llama-spm"}) {
    const auto tokenizer = golden_tokenizer(name);
    if (tokenizer == nullptr) continue;  // not in the repository
    for (const std::string unit : {"A", ".", " ", "\n", "中", "Z", "😁", "<|"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      on_small_stack([&] {
        const auto ids = tokenizer->encode(text, {.add_special = false, .parse_special = true});
        ASSERT_TRUE(ids) << ids.error().message;
        EXPECT_LE(ids->size(), text.size() + 1);  // SentencePiece puts a blank before it
        EXPECT_TRUE(tokenizer->decode(*ids) == text) << name << " '" << unit << "'";
      });
    }
  }
}

}  // namespace
}  // namespace soli
