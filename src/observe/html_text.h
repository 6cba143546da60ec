#pragma once

#include <string>
#include <string_view>

namespace soli {

/// `text` as it may stand in an element or in a quoted attribute of HTML or SVG. Names come from files that
/// anybody made: what is not UTF-8, control characters and those that turn the direction of what follows
/// become U+FFFD, line ends and tabs a blank.
std::string html_text(std::string_view text);

/// JSON as it may stand in a <script> element: no "</script" or "<!--" can be in it.
std::string json_in_html(std::string_view json);

}  // namespace soli
