#include "serve/openai/choice_text.h"

#include <gmock/gmock.h>

#include "base/rng.h"
#include "base/utf8.h"
#include "support/served.h"

namespace soli::openai {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<int32_t> ids_of(const TextPiece& piece) {
  std::vector<int32_t> ids;
  for (const TextToken& token : piece.tokens) ids.push_back(token.token);
  return ids;
}

TEST(ChoiceText, ATokenGoesWithTheLastOfItsCharacters) {
  const Served served;
  ChoiceText text(*served.model.tokenizer, {}, false);
  TextPiece piece = text.push({.token = kHello});
  EXPECT_EQ(piece.text, "hello");
  EXPECT_THAT(ids_of(piece), ElementsAre(kHello));
  EXPECT_TRUE(text.push({.token = kEuroBegin}).empty());
  piece = text.push({.token = 0xAC});
  EXPECT_EQ(piece.text, "€");
  ASSERT_THAT(ids_of(piece), ElementsAre(kEuroBegin, 0xAC));
  EXPECT_EQ(piece.tokens[0].offset, 5);
  EXPECT_EQ(piece.tokens[1].offset, 5) << "part of the same character";
  piece = text.push({.token = kTurn});
  EXPECT_EQ(piece.text, "") << "control tokens have no text";
  ASSERT_THAT(ids_of(piece), ElementsAre(kTurn));
  EXPECT_EQ(piece.tokens[0].offset, 6);
}

TEST(ChoiceText, WhatCannotBecomeACharacterIsReplaced) {
  const Served served;
  ChoiceText text(*served.model.tokenizer, {}, false);
  EXPECT_TRUE(text.push({.token = 0xE4}).empty());
  TextPiece piece = text.push({.token = 0xC3});
  EXPECT_EQ(piece.text, "\uFFFD");
  EXPECT_THAT(ids_of(piece), ElementsAre(0xE4)) << "the second may yet become a character";
  piece = text.finish();
  EXPECT_EQ(piece.text, "\uFFFD");
  EXPECT_THAT(ids_of(piece), ElementsAre(0xC3));
  EXPECT_TRUE(text.finish().empty());
}

TEST(ChoiceText, AStopStringOverSeveralTokensLeaksNothing) {
  const Served served;
  ChoiceText text(*served.model.tokenizer, {"DEFGHIJ"}, false);
  std::string sent;
  std::vector<int32_t> tokens;
  for (const char byte : std::string("ABCDEFGHIJ")) {
    const TextPiece piece = text.push({.token = byte});
    sent += piece.text;
    for (const int32_t id : ids_of(piece)) tokens.push_back(id);
  }
  EXPECT_TRUE(text.stopped());
  EXPECT_EQ(sent, "ABC");
  EXPECT_EQ(tokens, bytes_of("ABC"));
  EXPECT_TRUE(text.push({.token = 'K'}).empty());
  EXPECT_TRUE(text.finish().empty());
}

TEST(ChoiceText, ATokenInWhichTheStopBeginsIsShown) {
  const Served served;
  ChoiceText text(*served.model.tokenizer, {"lo w"}, false);
  EXPECT_TRUE(text.push({.token = 'a'}).text == "a");
  TextPiece piece = text.push({.token = kHello});
  EXPECT_EQ(piece.text, "hel");
  EXPECT_THAT(ids_of(piece), IsEmpty()) << "the rest of it waits";
  EXPECT_TRUE(text.push({.token = ' '}).empty());
  piece = text.push({.token = 'w'});
  EXPECT_TRUE(text.stopped());
  EXPECT_THAT(ids_of(piece), ElementsAre(kHello));
}

TEST(ChoiceText, TheEndReleasesWhatMightHaveBeenAStopString) {
  const Served served;
  ChoiceText text(*served.model.tokenizer, {"xyz"}, false);
  std::string sent;
  for (const char byte : std::string("...xy")) sent += text.push({.token = byte}).text;
  EXPECT_EQ(sent, "...");
  const TextPiece piece = text.finish();
  EXPECT_EQ(piece.text, "xy");
  EXPECT_EQ(ids_of(piece), bytes_of("xy"));
}

TEST(ChoiceText, StopStringsAreNotLookedForInThePrompt) {
  const Served served;
  ChoiceText text(*served.model.tokenizer, {"ab"}, true);
  EXPECT_EQ(text.push_prompt({.token = 'a'}).text, "a");
  EXPECT_EQ(text.push_prompt({.token = 'b'}).text, "b");
  EXPECT_EQ(text.push_prompt({.token = 'a'}).text, "a");
  EXPECT_EQ(text.push({.token = 'b'}).text, "b") << "it began in the prompt";
  EXPECT_EQ(text.push({.token = 'a'}).text, "");
  EXPECT_EQ(text.push({.token = 'b'}).text, "");
  EXPECT_TRUE(text.stopped());
}

/// Where the first stop string ends in the text begins; of those that end together, the longest.
std::string cut(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(ChoiceText, AnyTokensGiveTheTextCutAtTheFirstStop) {
  const Served served;
  Rng rng(1);
  for (int round = 0; round < 3000; ++round) {
    std::vector<int32_t> ids;
    const int32_t alphabet[] = {'a',  'b',        0xC3,   0xA9,  0xE2, 0x82,
                                0xAC, kEuroBegin, kHello, kTurn, 0xF0, 0xFF};
    for (uint64_t i = 0, n = rng.next_below(30); i < n; ++i) {
      ids.push_back(alphabet[rng.next_below(std::size(alphabet))]);
    }
    std::vector<std::string> stops;
    const char* const some[] = {"aa", "abab", "é", "\uFFFD", "€a", "llo", "b\uFFFDb", "bb"};
    for (uint64_t i = 0, n = rng.next_below(4); i < n; ++i)
      stops.push_back(some[rng.next_below(std::size(some))]);
    ChoiceText text(*served.model.tokenizer, stops, true);
    std::string joined;
    std::vector<TextToken> tokens;
    const auto take = [&](TextPiece piece) {
      EXPECT_TRUE(is_valid_utf8(piece.text));
      joined += piece.text;
      for (TextToken& token : piece.tokens) tokens.push_back(std::move(token));
    };
    for (const int32_t id : ids) take(text.push({.token = id}));
    take(text.finish());
    const std::string whole = replace_invalid_utf8(served.model.tokenizer->decode(ids));
    EXPECT_EQ(joined, cut(whole, stops));
    EXPECT_EQ(text.stopped(), joined != whole || (!stops.empty() && cut(whole + "!", stops) != whole + "!"));
    ASSERT_LE(tokens.size(), ids.size());
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(tokens[i].token, ids[i]) << "in order, none left out";
      if (i > 0) {
        EXPECT_GE(tokens[i].offset, tokens[i - 1].offset);
      }
    }
    if (!text.stopped()) {
      EXPECT_EQ(tokens.size(), ids.size());
    }
  }
}

}  // namespace
}  // namespace soli::openai
