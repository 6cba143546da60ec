#pragma once

// Where the parser stands in the tokens of a template.

#include <string>
#include <string_view>
#include <vector>

#include "format/jinja/lexer.h"
#include "format/jinja/limits.h"

namespace soli::jinja {

class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& now() const { return tokens_[at_]; }
  uint32_t line() const { return now().line; }
  bool is(Token::Kind kind) const { return now().kind == kind; }
  bool is_operator(std::string_view text) const { return is(Token::Kind::kOperator) && now().text == text; }
  bool is_name(std::string_view text) const { return is(Token::Kind::kName) && now().text == text; }
  /// The token after this one.
  const Token& next() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }

  /// This token; the reader goes on to the next, but never beyond the end.
  Token& take() {
    Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool take_operator(std::string_view text) { return is_operator(text) && (take(), true); }
  bool take_name(std::string_view text) { return is_name(text) && (take(), true); }

  Status expect_operator(std::string_view text) {
    if (take_operator(text)) return {};
    return unexpected(fmt::format("'{}'", text));
  }
  Status expect(Token::Kind kind, std::string_view shown) {
    if (!is(kind)) return unexpected(shown);
    take();
    return {};
  }
  Result<std::string> expect_name(std::string_view what) {
    if (!is(Token::Kind::kName)) return unexpected(what);
    return take().text;
  }

  /// "line 3: found '%}' where an expression is wanted".
  tl::unexpected<Error> unexpected(std::string_view wanted) const;

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

/// Counts how deep the parser is while it lives.
class NestingGuard {
 public:
  explicit NestingGuard(int& depth) : depth_(depth) { ++depth_; }
  ~NestingGuard() { --depth_; }
  NestingGuard(const NestingGuard&) = delete;
  NestingGuard& operator=(const NestingGuard&) = delete;

  Status check(uint32_t line) const {
    if (depth_ <= kMaxNesting) return {};
    return fail_at(line, ErrorKind::kLimit, "the template nests deeper than the {} levels allowed",
                   kMaxNesting);
  }

 private:
  int& depth_;
};

}  // namespace soli::jinja
