#pragma once

// Source of a template to tokens. Blanks around tags are dealt with here, as Jinja does with trim_blocks,
// lstrip_blocks and without keep_trailing_newline: the settings that chat templates are written for.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace soli::jinja {

struct Token {
  enum class Kind {
    kText,        // outside of tags; text
    kPrintBegin,  // {{
    kPrintEnd,    // }}
    kTagBegin,    // {%
    kTagEnd,      // %}
    kName,        // text
    kString,      // text, escapes resolved
    kInteger,     // integer
    kFloat,       // number
    kOperator,    // text: "==", "(", "."
    kEnd,         // of the source
  };
  Kind kind = Kind::kEnd;
  uint32_t line = 1;
  std::string text;
  int64_t integer = 0;
  double number = 0;
};

/// Ends with a kEnd. Fails with kMalformed, naming the line, for a source that is no UTF-8, a tag or string
/// that does not end, and characters that are none of Jinja; with kLimit for a number beyond 64 bits.
Result<std::vector<Token>> read_tokens(std::string_view source);

/// An error about a line of the template.
template <typename... Args>
tl::unexpected<Error> fail_at(uint32_t line, ErrorKind kind, fmt::format_string<Args...> format,
                              Args&&... args) {
  return fail(kind, "line {}: {}", line, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace soli::jinja
