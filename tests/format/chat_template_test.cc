#include "format/chat_template.h"

#include <gmock/gmock.h>

#include "format/jinja_test_support.h"

namespace soli {
namespace {

using namespace jinja_test;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

Result<std::string> render_inputs(const std::string& source, const ChatInputs& inputs) {
  const Result<ChatTemplate> chat_template = ChatTemplate::parse(source);
  if (!chat_template) return tl::unexpected<Error>(chat_template.error());
  return chat_template->render(inputs);
}

TEST(ChatTemplate, HasItsInputsUnderTheNamesThatTemplatesUse) {
  ChatInputs inputs;
  inputs.messages = {{{"role", "user"}, {"content", "Hi"}}};
  inputs.tools = Json::array({1});
  inputs.documents = Json::array({2});
  inputs.add_generation_prompt = false;
  inputs.bos_token = "<s>";
  inputs.eos_token = "</s>";
  inputs.variables = {{"further", Json::object({{"b", 1}, {"a", 2}})}};
  EXPECT_EQ(
      *render_inputs("{{ messages }}{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ bos_token }}"
                     "{{ eos_token }}{{ further }}",
                     inputs),
      "[{'role': 'user', 'content': 'Hi'}][1][2]False<s></s>{'b': 1, 'a': 2}");
}

TEST(ChatTemplate, WhatIsAbsentIsNoneOrUndefined) {
  EXPECT_EQ(
      *render_inputs("{{ tools is none }}{{ documents is none }}{{ bos_token is defined }}{{ eos_token }}"
                     "{{ add_generation_prompt }}",
                     {}),
      "TrueTrueFalseTrue");
}

TEST(ChatTemplate, VariablesStandInForTokensAndForNothingElse) {
  ChatInputs inputs;
  inputs.bos_token = "<s>";
  inputs.variables = {{"bos_token", "other"}};
  EXPECT_EQ(*render_inputs("{{ bos_token }}", inputs), "other");
  for (const char* const name : {"messages", "tools", "documents", "add_generation_prompt"}) {
    inputs.variables = {{name, 1}};
    EXPECT_THAT(render_inputs("", inputs).error().message, HasSubstr(std::string("'") + name + "'"));
  }
  inputs.variables = Json::array();
  EXPECT_THAT(render_inputs("", inputs).error().message, HasSubstr("an object is wanted"));
}

TEST(ChatTemplate, InputsOfAllTypes) {
  ChatInputs inputs;
  inputs.variables = {
      {"x", Json::parse(R"([null, true, -5, 9223372036854775807, 1.0, 1e100, "ä", [], {}])")}};
  EXPECT_EQ(*render_inputs("{{ x }}", inputs),
            "[None, True, -5, 9223372036854775807, 1.0, 1e+100, 'ä', [], {}]");
  inputs.variables = {{"x", "a\xff"}};
  EXPECT_EQ(*render_inputs("{{ x }}", inputs), "a\uFFFD");
  inputs.variables = {{"x", UINT64_MAX}};
  EXPECT_THAT(render_inputs("{{ x }}", inputs).error().message,
              HasSubstr("'x': the number 18446744073709551615"));
}

TEST(ChatTemplate, OneTemplateRendersManyTimes) {
  const Result<ChatTemplate> chat_template =
      ChatTemplate::parse("{{ messages | length }}{% set x = 1 %}{{ x }}");
  ASSERT_TRUE(chat_template);
  ChatInputs inputs;
  for (size_t n = 0; n < 3; ++n) {
    EXPECT_EQ(*chat_template->render(inputs), std::to_string(n) + "1");
    inputs.messages.push_back(nullptr);
  }
}

TEST(ChatTemplate, ErrorsHaveTheTemplatesOwnMessageAndTheLine) {
  EXPECT_EQ(error_of("\n{% if true %}\n{{ raise_exception('Roles must alternate') }}{% endif %}"),
            "chat template: line 3: Roles must alternate");
  EXPECT_EQ(error_of("{% macro f() %}\n{{ raise_exception('deep') }}\n{% endmacro %}\n\n{{ f() }}"),
            "chat template: line 2: deep");
  EXPECT_EQ(error_of("\n\n{{ 'a' + 1 }}"), "chat template: line 3: + does not go with str and int");
  EXPECT_EQ(error_of("a\n{{ x.y }}"), "chat template: line 2: 'x' is undefined");
  EXPECT_EQ(error_of("{{ messages[0].role.x }}"), "chat template: line 1: list object has no element 0");
  EXPECT_EQ(error_of("{{ raise_exception('a\x1b[31m\nb') }}"), "chat template: line 1: a\\x1B[31m\\nb");
}

TEST(ChatTemplate, ErrorsNameWhatIsAllowed) {
  EXPECT_THAT(error_of("{{ 1 | nope }}"),
              HasSubstr("line 1: there is no filter 'nope'; there are capitalize, center"));
  EXPECT_THAT(error_of("{{ 1 is nope }}"), HasSubstr("there is no test 'nope'; there are !=, <"));
  EXPECT_THAT(error_of("\n{% include 'x' %}"),
              HasSubstr("line 2: there is no tag 'include'; there are if, for"));
  EXPECT_THAT(error_of("{{ [1] | sort(by=1) }}"),
              HasSubstr("sort: argument 'by' is unknown; it takes (reverse, case_sensitive, attribute)"));
  EXPECT_THAT(error_of("{{ 'a' | replace('b') }}"), HasSubstr("argument 'new' is missing"));
  EXPECT_THAT(error_of("{{ 'a' | replace('b', 'c', old='d') }}"), HasSubstr("given twice"));
  EXPECT_THAT(error_of("{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}"),
              HasSubstr("'f': 2 arguments; it takes 1"));
}

TEST(ChatTemplate, WhatDoesNotParseSaysWhere) {
  check({
      {"{% if true %}a",
       "error: chat template: line 1: found the end of the template where {% endif %} is wanted"},
      {"\n{{ 1 + }}", "error: chat template: line 2: found '}}' where an expression is wanted"},
      {"{% endif %}", "error: chat template: line 1: 'endif' belongs to nothing that is open here"},
      {"{{ (1 }}", "error: chat template: line 1: '}' closes nothing"},
      {"{{ 'a }}", "error: chat template: line 1: a string that does not end"},
      {"a\n{{ 1", "error: chat template: line 2: a tag that does not end: '}}' is missing"},
      {"{# a", "error: chat template: line 1: a comment that does not end: '#}' is missing"},
      {"{% raw %}{{", "error: chat template: line 1: raw without endraw"},
      {"{{ 1 ? 2 }}", "error: chat template: line 1: '?' has no meaning within a tag"},
      {"{% for x in y recursive %}{% endfor %}",
       "error: chat template: line 1: for: recursive loops are not supported"},
      {"{% break %}", "error: chat template: line 1: break outside of a loop"},
      {"{% set none = 1 %}", "error: chat template: line 1: 'none' cannot be assigned to"},
  });
}

}  // namespace
}  // namespace soli
