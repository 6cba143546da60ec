#include "serve/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace soli::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ApiKeysTest, FindsOnlyWholeKeys) {
  const ApiKeys keys = ApiKeys::create({{.key = "first-key"}, {.key = "second-key", .name = "bob"}}).value();
  EXPECT_EQ(keys.find("first-key"), 0U);
  EXPECT_EQ(keys.find("second-key"), 1U);
  EXPECT_EQ(keys[0].name, "key-1");
  EXPECT_EQ(keys[1].name, "bob");
  const std::string zero("first-key\0", 10);
  for (const std::string_view wrong :
       {std::string_view(""), std::string_view("first-ke"), std::string_view("first-keyy"),
        std::string_view("First-key"), std::string_view(zero), std::string_view("second")})
    EXPECT_FALSE(keys.find(wrong)) << wrong;
  EXPECT_FALSE(keys.find(std::string(100'000, 'a')));
  EXPECT_FALSE(ApiKeys().find(""));
}

TEST(ApiKeysTest, KeysOfOneTenantShareANumber) {
  const ApiKeys keys = ApiKeys::create({{.key = "first-key"},
                                        {.key = "second-key", .tenant = "t"},
                                        {.key = "third-key"},
                                        {.key = "fourth-key", .tenant = "t"}})
                           .value();
  EXPECT_EQ(keys.tenant_of(1), keys.tenant_of(3));
  EXPECT_NE(keys.tenant_of(0), keys.tenant_of(1));
  EXPECT_NE(keys.tenant_of(0), keys.tenant_of(2));
  EXPECT_GT(keys.tenant_of(0), 0U);
}

TEST(ApiKeysTest, EveryByteCounts) {
  const std::string key(ApiKeys::kMaxKeyBytes, 'k');
  const ApiKeys keys = ApiKeys::create({{.key = key}}).value();
  EXPECT_TRUE(keys.find(key));
  for (size_t i = 0; i < key.size(); ++i) {
    std::string wrong = key;
    wrong[i] = 'l';
    EXPECT_FALSE(keys.find(wrong)) << i;
  }
}

TEST(ApiKeysTest, RefusesBadOnesWithoutShowingThem) {
  const std::vector<std::vector<ApiKey>> bad = {
      {{.key = "1234567"}},
      {{.key = std::string(257, 'a')}},
      {{.key = "with blank"}},
      {{.key = "w\xc3\xa4hrend"}},
      {{.key = "same-key"}, {.key = "same-key"}},
      {{.key = "first-key", .name = "a"}, {.key = "other-key", .name = "a"}},
      {{.key = "first-key", .name = std::string(65, 'n')}},
      std::vector<ApiKey>(ApiKeys::kMaxKeys + 1),
  };
  for (const std::vector<ApiKey>& keys : bad) {
    const auto made = ApiKeys::create(keys);
    ASSERT_FALSE(made);
    if (keys.back().key.empty()) continue;
    EXPECT_THAT(made.error().message, Not(HasSubstr(keys.back().key)));
  }
}

TEST(ParseKeyLinesTest, TakesKeysAndNames) {
  const auto keys =
      parse_key_lines("# comment\n\n first-key alice\t\r\nother-key\nthird-key-3\tcarol", "f").value();
  ASSERT_EQ(keys.size(), 3U);
  EXPECT_EQ(keys[0].key, "first-key");
  EXPECT_EQ(keys[0].name, "alice");
  EXPECT_EQ(keys[1].key, "other-key");
  EXPECT_EQ(keys[1].name, "");
  EXPECT_EQ(keys[2].name, "carol");
}

TEST(ParseKeyLinesTest, NamesTheLine) {
  for (const char* text : {"good-key-1\nshort\n", "good-key-1\na-good-key with two\n",
                           "\nb\xc3\xa4"
                           "d-key-12\n"}) {
    const auto keys = parse_key_lines(text, "keys.txt");
    ASSERT_FALSE(keys) << text;
    EXPECT_THAT(keys.error().message, HasSubstr("keys.txt:2: "));
  }
  EXPECT_THAT(parse_key_lines("# none\n", "keys.txt").error().message, HasSubstr("there is no key"));
}

TEST(BearerTokenTest, TakesTheScheme) {
  EXPECT_EQ(bearer_token("Bearer abc"), "abc");
  EXPECT_EQ(bearer_token("bEARER   abc "), "abc");
  for (const char* value : {"", "Bearer", "Basic abc", "Bearerabc", "abc"})
    EXPECT_FALSE(bearer_token(value)) << value;
}

}  // namespace
}  // namespace soli::serve
