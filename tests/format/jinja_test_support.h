#pragma once

#include <gtest/gtest.h>

#include <string>

#include "format/chat_template.h"

namespace soli::jinja_test {

/// The text that a template makes of variables, or "error: " and the message.
inline std::string render(const std::string& source, const std::string& variables = "{}",
                          const jinja::RenderLimits& limits = {}) {
  const Result<ChatTemplate> chat_template = ChatTemplate::parse(source);
  if (!chat_template) return "error: " + chat_template.error().message;
  ChatInputs inputs;
  inputs.variables = nlohmann::ordered_json::parse(variables);
  const Result<std::string> text = chat_template->render(inputs, limits);
  return text ? *text : "error: " + text.error().message;
}

/// Source and what it gives, one pair after the other.
struct Case {
  std::string source;
  std::string text;
};
inline void check(const std::vector<Case>& cases, const std::string& variables = "{}") {
  for (const Case& one : cases) EXPECT_EQ(render(one.source, variables), one.text) << one.source;
}

/// The error of rendering, or "" where there is none.
inline std::string error_of(const std::string& source, const jinja::RenderLimits& limits = {}) {
  const std::string text = render(source, "{}", limits);
  return text.starts_with("error: ") ? text.substr(7) : "";
}

inline std::string times(int n, const std::string& text) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

}  // namespace soli::jinja_test
