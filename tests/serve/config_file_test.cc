#include "serve/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace soli::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

TEST(ParseConfigTest, TakesValuesAsACommandLineWould) {
  const ConfigFile config = parse_config(
                                "port = 8080 # comment\nhost = \"::1\"\ndrain-timeout = 2.5\npin = true\n"
                                "allowed-host = [\n  \"a\",\n  \"b\",\n]\nmemory = '12GiB'\n",
                                "f")
                                .value();
  ASSERT_EQ(config.settings.size(), 6U);
  EXPECT_EQ(config.settings[0].key, "port");
  EXPECT_THAT(config.settings[0].values, ElementsAre("8080"));
  EXPECT_THAT(config.settings[1].values, ElementsAre("::1"));
  EXPECT_THAT(config.settings[2].values, ElementsAre("2.5"));
  EXPECT_THAT(config.settings[3].values, ElementsAre("true"));
  EXPECT_THAT(config.settings[4].values, ElementsAre("a", "b"));
  EXPECT_THAT(config.settings[5].values, ElementsAre("12GiB"));
  EXPECT_EQ(config.settings[5].line, 9);
  std::vector<bool> are_texts;
  for (const Setting& setting : config.settings) are_texts.push_back(setting.is_text);
  EXPECT_THAT(are_texts, ElementsAre(false, true, false, false, true, true));
}

TEST(ParseConfigTest, TakesKeys) {
  const ConfigFile config =
      parse_config(
          "[[api-key]]\nkey = \"12345678\"\nname = \"alice\"\nmax-experts-per-token = 4\n"
          "tenant = 't'\npriority = -3\nallow-policy = \"mask\"\n[[api-key]]\nkey = \"23456789\"\n",
          "f")
          .value();
  ASSERT_EQ(config.api_keys.size(), 2U);
  EXPECT_EQ(config.api_keys[0].key, "12345678");
  EXPECT_EQ(config.api_keys[0].name, "alice");
  EXPECT_EQ(config.api_keys[0].max_experts_per_token, 4);
  EXPECT_EQ(config.api_keys[0].tenant, "t");
  EXPECT_EQ(config.api_keys[0].priority, -3);
  ASSERT_TRUE(config.api_keys[0].allow_policy);
  EXPECT_THAT(config.api_keys[0].allow_policy->keys(), ElementsAre("mask"));
  EXPECT_EQ(config.api_keys[1].priority, 0);
  EXPECT_FALSE(config.api_keys[1].allow_policy) << "as the server allows";
}

TEST(ParseConfigTest, NamesTheLineOfWhatIsWrong) {
  const std::vector<std::pair<std::string, int>> bad = {
      {"a = 1\nb = \n", 2},
      {"a = 1\na = 2\n", 2},
      {"\n\n[table]\na = 1\n", 3},
      {"a = 1979-05-27\n", 1},
      {"a = []\n", 1},
      {"a = [[1]]\n", 1},
      {"a = \"\xff\"\n", 1},
      {"api-key = []\n", 1},
      {"[api-key]\nkey = \"12345678\"\n", 1},
      {"\n[[api-key]]\nkey = 1\n", 3},
      {"[[api-key]]\nkey = \"12345678\"\npriority = 1001\n", 3},
      {"[[api-key]]\nkey = \"12345678\"\nallow-policy = \"heat\"\n", 3},
      {"[[api-key]]\nkey = \"12345678\"\nallow-policy = 1\n", 3},
  };
  for (const auto& [text, line] : bad) {
    const auto config = parse_config(text, "soli.toml");
    ASSERT_FALSE(config) << text;
    EXPECT_THAT(config.error().message, StartsWith("soli.toml:" + std::to_string(line) + ": ")) << text;
  }
}

TEST(ParseConfigTest, IsBounded) {
  EXPECT_FALSE(parse_config(std::string(kMaxConfigBytes + 1, '#'), "f"));
  EXPECT_FALSE(parse_config("a = " + std::string(100'000, '['), "f"));
  EXPECT_FALSE(parse_config("a" + std::string(100'000, '.') + " = 1", "f"));
  std::string key;
  for (int i = 0; i < 60'000; ++i) key += "a.";
  for (const std::string& text : {"\n" + key + "b = 1", "\n[" + key + "b]"}) {
    const auto config = parse_config(text, "f");
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().message, "f:2: a key or list is nested more than 32 deep");
  }
  std::string keys;
  for (size_t i = 0; i <= ApiKeys::kMaxKeys; ++i) keys += "[[api-key]]\nkey = \"1234567890\"\n";
  EXPECT_FALSE(parse_config(keys, "f"));
}

}  // namespace
}  // namespace soli::serve
