#include "format/detokenizer.h"

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "format/tokenizer_test_support.h"
#include "support/tokenizer_specs.h"

namespace soli {
namespace {

using tokenizer_test::byte_pair_spec;
using tokenizer_test::make_tokenizer;
using tokenizer_test::sentence_piece_spec;

std::string push_all(Detokenizer& stream, const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids) out += stream.push(id);
  return out;
}

TEST(Detokenizer, HoldsACharacterBackUntilItIsComplete) {
  const auto tokenizer = make_tokenizer(byte_pair_spec({}, {}));  // one byte per token
  Detokenizer stream(*tokenizer);
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push(0x9F), "");
  EXPECT_EQ(stream.push(0x98), "");
  EXPECT_TRUE(stream.pending());
  EXPECT_EQ(stream.push(0x80), "😀");
  EXPECT_FALSE(stream.pending());
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Detokenizer, AnIncompleteCharacterAtTheEndBecomesAReplacement) {
  const auto tokenizer = make_tokenizer(byte_pair_spec({}, {}));
  Detokenizer stream(*tokenizer);
  EXPECT_EQ(stream.push('x'), "x");
  EXPECT_EQ(push_all(stream, {0xE4, 0xBD}), "");
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_EQ(stream.flush(), "") << "only once";
}

TEST(Detokenizer, AByteThatCannotFollowReleasesWhatWasHeld) {
  const auto tokenizer = make_tokenizer(byte_pair_spec({}, {}));
  Detokenizer stream(*tokenizer);
  EXPECT_EQ(stream.push(0xE4), "");
  EXPECT_EQ(stream.push('a'), "\uFFFDa");
  EXPECT_EQ(stream.push(0xFF), "\uFFFD");
  EXPECT_EQ(stream.push(0xC3), "");
  EXPECT_EQ(stream.push(0xC3), "\uFFFD") << "the second may yet become a character";
  EXPECT_EQ(stream.push(0xA9), "é");
}

TEST(Detokenizer, EveryChunkIsValidAndTheStreamIsTheText) {
  const auto tokenizer = make_tokenizer(byte_pair_spec({}, {}));
  uint32_t state = 1;
  for (int round = 0; round < 200; ++round) {
    std::vector<int32_t> ids;
    for (int i = 0; i < 40; ++i) {
      state = state * 1664525u + 1013904223u;
      const uint32_t r = state >> 16;
      // Mostly bytes of multi-byte characters, in and out of order.
      ids.push_back(static_cast<int32_t>(r % 4 == 0 ? r / 4 % 128 : 0x80 + r / 4 % 128));
    }
    Detokenizer stream(*tokenizer);
    std::string joined;
    for (const int32_t id : ids) {
      const std::string chunk = stream.push(id);
      EXPECT_TRUE(is_valid_utf8(chunk));
      joined += chunk;
    }
    joined += stream.flush();
    EXPECT_EQ(joined, replace_invalid_utf8(tokenizer->decode(ids)));
  }
}

TEST(Detokenizer, TakesTheFirstBlankOffOnlyWhereATextBegins) {
  const auto tokenizer = make_tokenizer(sentence_piece_spec({"▁a", "▁"}));
  const int32_t a = *tokenizer->find_token("▁a");
  Detokenizer begins(*tokenizer), continues(*tokenizer, {.begins_text = false});
  EXPECT_EQ(push_all(begins, {a, a}), "a a");
  EXPECT_EQ(push_all(continues, {a, a}), " a a");
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{a, a}), "a a");
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{a, a}, {.begins_text = false}), " a a");
}

TEST(Detokenizer, ControlTokensAndUnknownIdsAddNothing) {
  const auto tokenizer = make_tokenizer(byte_pair_spec({}, {"<|x|>"}));
  const int32_t control = *tokenizer->find_token("<|x|>");
  Detokenizer hidden(*tokenizer), shown(*tokenizer, {.render_special = true});
  EXPECT_EQ(push_all(hidden, {control, -1, 1000000}), "");
  EXPECT_EQ(shown.push(control), "<|x|>");
}

/// All that a matcher sends for these chunks, with flush() if it did not stop.
std::string sent(StopMatcher& matcher, const std::vector<std::string>& chunks) {
  std::string out;
  for (const std::string& chunk : chunks) out += matcher.push(chunk);
  return matcher.stopped() ? out : out + matcher.flush();
}

TEST(StopMatcher, FindsAStopStringSpreadOverChunks) {
  StopMatcher matcher({"DEFGHIJ"});
  EXPECT_EQ(matcher.push("ABC"), "ABC");
  for (const char* chunk : {"DEF", "G", "HI", "J"}) EXPECT_EQ(matcher.push(chunk), "") << chunk;
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.matched(), 0);
  EXPECT_EQ(matcher.push("KLM"), "") << "nothing after the stop";
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopMatcher, SendsWhatWasHeldBackWhenTheStreamEnds) {
  StopMatcher matcher({"xyz"});
  EXPECT_EQ(matcher.push("...xy"), "...");
  EXPECT_EQ(matcher.flush(), "xy");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, ReleasesTextAsSoonAsItCannotBeAStopString) {
  StopMatcher matcher({"aab"});
  EXPECT_EQ(matcher.push("aa"), "");
  EXPECT_EQ(matcher.push("a"), "a") << "the last two may still begin the stop string";
  EXPECT_EQ(matcher.push("c"), "aac");
  EXPECT_EQ(matcher.push("aab"), "");
  EXPECT_TRUE(matcher.stopped());
}

TEST(StopMatcher, TheFirstStopStringToEndCounts) {
  StopMatcher inner({"ABCD", "C"});
  EXPECT_EQ(sent(inner, {"xAB", "CD"}), "xAB");
  EXPECT_EQ(inner.matched(), 1);
  StopMatcher longest({"b", "ab"});
  EXPECT_EQ(sent(longest, {"xab"}), "x") << "of two that end together, the longest";
  EXPECT_EQ(longest.matched(), 1);
}

TEST(StopMatcher, WithoutStopStringsEverythingPasses) {
  StopMatcher none, empty({"", ""});
  EXPECT_EQ(sent(none, {"a", "b"}), "ab");
  EXPECT_EQ(sent(empty, {"a", "b"}), "ab");
}

TEST(StopMatcher, EqualsASearchInTheWholeText) {
  uint32_t state = 7;
  const auto random = [&](uint32_t below) {
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % below;
  };
  for (int round = 0; round < 500; ++round) {
    std::vector<std::string> stops, chunks;
    std::string text;
    for (uint32_t i = 0, n = 1 + random(3); i < n; ++i) {
      std::string stop;
      for (uint32_t j = 0, m = 1 + random(5); j < m; ++j) stop += static_cast<char>('a' + random(2));
      stops.push_back(stop);
    }
    for (int i = 0; i < 10; ++i) {
      std::string chunk;
      for (uint32_t j = 0, m = random(4); j < m; ++j) chunk += static_cast<char>('a' + random(2));
      text += chunk;
      chunks.push_back(chunk);
    }
    size_t end = std::string::npos, begin = text.size();
    for (const std::string& stop : stops) {
      const size_t at = text.find(stop);
      if (at == std::string::npos) continue;
      if (at + stop.size() < end || (at + stop.size() == end && at < begin)) begin = at;
      end = std::min(end, at + stop.size());
    }
    StopMatcher matcher(stops);
    EXPECT_EQ(sent(matcher, chunks), text.substr(0, begin));
    EXPECT_EQ(matcher.stopped(), end != std::string::npos);
  }
}

}  // namespace
}  // namespace soli
