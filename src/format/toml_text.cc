#include "format/toml_text.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace soli {
namespace {

/// Walks over a text before it is parsed, since the parser and its tables recurse over the parts of a dotted
/// key. Follows the parser as far as that gets without an error, which is all that it builds.
class TomlDepth {
 public:
  explicit TomlDepth(std::string_view text) : text_(text) {}

  /// The first line that is nested too deeply; 0: there is none.
  int64_t find_line_beyond(size_t most) {
    while (at_ < text_.size()) {
      step();
      if (open_dots_.size() + dots_of_open_ + dots_ > most) return line_at();
    }
    return 0;
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '"' || c == '\'') return skip_text(c);
    if (c == '#') return skip_comment();
    if (c == '.') ++dots_;
    if (c == '\n' || c == ',') dots_ = 0;
    if (c == '[' || c == '{') open();
    if (c == ']' || c == '}') close();
    ++at_;
  }

  /// The dots of the key in front of a bracket count for all within.
  void open() {
    open_dots_.push_back(dots_);
    dots_of_open_ += std::exchange(dots_, 0);
  }

  void close() {
    if (open_dots_.empty()) return;
    dots_ = open_dots_.back();
    dots_of_open_ -= dots_;
    open_dots_.pop_back();
  }

  void skip_comment() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  /// A text in quotes, of one line or, in three quotes, of many; two more may stand at the end of the latter.
  void skip_text(char quote) {
    const std::string three(3, quote);
    const bool is_long = text_.substr(at_, 3) == three;
    at_ += is_long ? 3 : 1;
    while (at_ < text_.size()) {
      const bool ends = is_long ? text_.substr(at_, 3) == three : text_[at_] == quote;
      if (ends) break;
      if (!is_long && text_[at_] == '\n') return;  // an error, at which the parser stops
      at_ += quote == '"' && text_[at_] == '\\' ? 2 : 1;
    }
    at_ += is_long ? 3 : 1;
    for (int i = 0; is_long && i < 2 && at_ < text_.size() && text_[at_] == quote; ++i) ++at_;
    at_ = std::min(at_, text_.size());
  }

  int64_t line_at() const {
    const auto end = text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size()));
    // The character that was too much has been passed, and is no line feed.
    return 1 + std::count(text_.begin(), end, '\n');
  }

  const std::string_view text_;
  size_t at_ = 0;
  size_t dots_ = 0;                // since the last separator within the innermost bracket
  std::vector<size_t> open_dots_;  // of each open bracket, those in front of it
  size_t dots_of_open_ = 0;        // their sum
};

}  // namespace

Result<toml::table> parse_toml(std::string_view text, const std::string& name, size_t most_bytes) {
  if (text.size() > most_bytes)
    return fail(ErrorKind::kLimit, "{}: {} bytes; {} are allowed", name, text.size(), most_bytes);
  if (const int64_t line = TomlDepth(text).find_line_beyond(kMaxTomlDepth); line > 0) {
    return fail(ErrorKind::kMalformed, "{}:{}: a key or list is nested more than {} deep", name, line,
                kMaxTomlDepth);
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    return fail(ErrorKind::kMalformed, "{}:{}: {}", name, error.source().begin.line,
                printable(std::string(error.description()), 300));
  }
}

}  // namespace soli
