// Snippets of templates, each with the text that Jinja2 makes of it (tests/cli/render_test.py holds it to
// that), or with null where Jinja2 raises an error.

#include <fstream>

#include "format/jinja_test_support.h"

namespace soli {
namespace {

TEST(JinjaSnippets, AreWhatJinjaMakesOfThem) {
  std::ifstream file(SOLI_TEST_DATA "/data/chat_templates/snippets.json");
  const auto snippets = nlohmann::ordered_json::parse(file);
  ASSERT_GT(snippets.size(), 200U);
  for (const auto& snippet : snippets) {
    const auto source = snippet[0].get<std::string>();
    const Result<ChatTemplate> chat_template = ChatTemplate::parse(source);
    ChatInputs inputs;
    inputs.now = std::tm{};
    inputs.now->tm_mday = 26;
    inputs.now->tm_mon = 6;
    inputs.now->tm_year = 124;
    inputs.now->tm_wday = 5;
    inputs.now->tm_yday = 207;
    const Result<std::string> text =
        chat_template ? chat_template->render(inputs) : tl::unexpected<Error>(chat_template.error());
    if (snippet[1].is_null()) {
      EXPECT_FALSE(text) << source;
      if (!text) {
        EXPECT_TRUE(text.error().message.starts_with("chat template: ")) << text.error().message;
      }
    } else {
      ASSERT_TRUE(text) << source << "\n" << text.error().message;
      EXPECT_EQ(*text, snippet[1].get<std::string>()) << source;
    }
  }
}

}  // namespace
}  // namespace soli
