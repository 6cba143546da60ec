// What lies beside a tokenizer.json, and where the two are looked for.

#include <gmock/gmock.h>

#include <fstream>

#include "format/gguf_metadata.h"
#include "format/hf/config.h"
#include "format/hf_tokenizer_test_support.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using namespace hf_test;
using testing::HasSubstr;
using testing::StartsWith;

void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

Json file_with_special_tokens() {
  Json file = byte_level_file({});
  file["added_tokens"] = Json::array({added_token(300, "<s>", true), added_token(301, "</s>", true)});
  return file;
}

TEST(HfConfig, TokensAreTextsOrObjects) {
  const auto config = hf::parse_config(
      R"({"bos_token": {"__type": "AddedToken", "content": "<s>"}, "eos_token": "</s>", "add_bos_token": true,
          "unk_token": null, "model_max_length": 1000000000000000019884624838656})");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->bos, "<s>");
  EXPECT_EQ(config->eos, "</s>");
  EXPECT_EQ(config->add_bos, true);
  EXPECT_EQ(config->add_eos, std::nullopt);
  EXPECT_TRUE(config->chat_templates.empty());
}

TEST(HfConfig, OneChatTemplateOrSeveral) {
  const auto one = hf::parse_config(R"({"chat_template": "{{ x }}"})");
  ASSERT_EQ(one->chat_templates.size(), 1u);
  EXPECT_EQ(one->chat_templates[0].name, "default");
  EXPECT_EQ(one->chat_templates[0].text, "{{ x }}");
  const auto two = hf::parse_config(
      R"({"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]})");
  ASSERT_EQ(two->chat_templates.size(), 2u);
  EXPECT_EQ(two->chat_templates[1].name, "tool_use");
  EXPECT_EQ(two->chat_templates[1].text, "b");
}

TEST(HfConfig, WrongTypesNameThePlace) {
  const auto error = [](const char* json) { return hf::parse_config(json).error().message; };
  EXPECT_EQ(error("[]"), "the file is an array; an object is allowed");
  EXPECT_EQ(error(R"({"bos_token": 1})"), "bos_token is 1; a string is allowed");
  EXPECT_EQ(error(R"({"bos_token": {"content": 1}})"), "bos_token.content is 1; a string is allowed");
  EXPECT_EQ(error(R"({"add_bos_token": "true"})"), "add_bos_token is 'true'; true or false is allowed");
  EXPECT_EQ(error(R"({"chat_template": 1})"),
            "chat_template is 1; a string, or an array of named templates is allowed");
  EXPECT_EQ(error(R"({"chat_template": [{"name": "a"}]})"), "chat_template[0] has no 'template'");
  EXPECT_EQ(error(R"({"chat_template": [{"name": "a", "template": ""}, {"name": "a", "template": ""}]})"),
            "chat_template[1].name is 'a', as that of another");
}

TEST(HfConfig, AFolderOrItsFile) {
  const TemporaryFolder folder;
  write(folder / "tokenizer.json", file_with_special_tokens().dump());
  write(folder / "tokenizer_config.json",
        R"({"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": true, "chat_template": "old"})");
  write(folder / "chat_template.jinja", "new");
  for (const std::string& path : {folder / "", folder / "tokenizer.json"}) {
    const auto tokenizer = Tokenizer::from_hugging_face(path);
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    EXPECT_EQ(tokens_of(**tokenizer, "a"), (std::vector<std::string>{"<s>", "a"}));
    EXPECT_EQ((*tokenizer)->eos(), 301);
    ASSERT_EQ((*tokenizer)->chat_templates().size(), 1u);
    EXPECT_EQ((*tokenizer)->chat_templates()[0].text, "new");
  }
}

TEST(HfConfig, ErrorsNameTheFile) {
  const TemporaryFolder folder;
  const auto error = [&] { return Tokenizer::from_hugging_face(folder / "").error().message; };
  EXPECT_THAT(error(), HasSubstr("No such file"));
  write(folder / "tokenizer.json", "{");
  EXPECT_THAT(error(), StartsWith(folder / "/tokenizer.json: no JSON at byte 2"));
  write(folder / "tokenizer.json", file_with_special_tokens().dump());
  write(folder / "tokenizer_config.json", "{\"bos_token\": []}");
  EXPECT_THAT(error(), HasSubstr("tokenizer_config.json: bos_token is an array"));
  write(folder / "tokenizer_config.json", "{}");
  write(folder / "chat_template.jinja", "\xFF");
  EXPECT_THAT(error(), HasSubstr("chat_template.jinja is not UTF-8"));
}

TEST(GgufChatTemplates, AreReadByName) {
  std::vector<GgufMetadata::Entry> entries;
  entries.push_back({"tokenizer.ggml.model", GgufValue::of_string("gpt2")});
  entries.push_back({"tokenizer.ggml.tokens", GgufValue::of_strings(std::vector<std::string>{"a"})});
  entries.push_back({"tokenizer.ggml.merges", GgufValue::of_strings(std::vector<std::string>{})});
  entries.push_back({"tokenizer.chat_template", GgufValue::of_string("x")});
  entries.push_back({"tokenizer.chat_template.rag", GgufValue::of_string("y")});
  entries.push_back({"tokenizer.chat_templates", GgufValue::of_strings(std::vector<std::string>{"rag"})});
  const auto metadata = GgufMetadata::build("a.gguf", std::move(entries));
  auto spec = read_tokenizer_spec(*metadata);
  ASSERT_TRUE(spec) << spec.error().message;
  const auto tokenizer = Tokenizer::create(*std::move(spec));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const auto& templates = (*tokenizer)->chat_templates();
  ASSERT_EQ(templates.size(), 2u);
  EXPECT_EQ(templates[0].name + templates[0].text + templates[1].name + templates[1].text, "defaultxragy");
}

}  // namespace
}  // namespace soli
