#include "format/jinja/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "base/utf8.h"
#include "format/jinja/limits.h"
#include "format/jinja/unicode.h"

namespace soli::jinja {
namespace {

bool is_digit_byte(char c) { return c >= '0' && c <= '9'; }

bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool continues_name(char c) { return begins_name(c) || is_digit_byte(c); }

/// One kind of line end, and none at the very end.
std::string normalise_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      out += '\n';
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}
  Result<std::vector<Token>> run();

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool at(std::string_view what) const { return rest().starts_with(what); }
  void advance(size_t bytes);
  void skip_blanks();
  void push(Token::Kind kind, std::string text = {}) { tokens_.push_back({kind, line_, std::move(text)}); }
  void push_text(std::string_view text, char sign, bool may_lstrip);

  char take_sign();
  void end_with(std::string_view closing, bool trims_newline);
  Status skip_comment();
  bool take_raw_begin();
  Status take_raw();
  std::optional<size_t> find_endraw(size_t& tag_bytes, char& sign, char& end_sign) const;
  Status take_inside(bool is_print);
  Status take_token();
  Status take_number();
  Status take_string();
  Status take_operator();

  const std::string source_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool line_starting_ = true;  // nothing but line ends stands before on this line
  std::vector<char> open_;     // brackets, by the ones that close them
  std::vector<Token> tokens_;
};

void Lexer::advance(size_t bytes) {
  line_ += static_cast<uint32_t>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                            source_.begin() + static_cast<ptrdiff_t>(at_ + bytes), '\n'));
  at_ += bytes;
}

void Lexer::skip_blanks() {
  const std::string_view after = Stripper().left(rest());
  advance(source_.size() - at_ - after.size());
}

/// Text before a tag. A '-' in the tag takes all blanks off its end; without a sign, blanks between the
/// beginning of the line and the tag go (lstrip_blocks).
void Lexer::push_text(std::string_view text, char sign, bool may_lstrip) {
  if (sign == '-') {
    text = Stripper().right(text);
  } else if (sign != '+' && may_lstrip) {
    const size_t line_end = text.rfind('\n');
    if (line_end != std::string_view::npos || line_starting_) {
      const size_t begin = line_end == std::string_view::npos ? 0 : line_end + 1;
      if (Stripper().left(text.substr(begin)).empty()) text = text.substr(0, begin);
    }
  }
  if (!text.empty()) push(Token::Kind::kText, std::string(text));
}

char Lexer::take_sign() {
  if (!at("-") && !at("+")) return 0;
  const char sign = source_[at_];
  advance(1);
  return sign;
}

/// At the end of a tag: "-%}" takes blanks with it, "%}" one line end where `trims_newline`, "+%}" nothing.
void Lexer::end_with(std::string_view closing, bool trims_newline) {
  const size_t begin = at_;
  const char sign = take_sign();
  advance(closing.size());
  if (sign == '-') {
    skip_blanks();
  } else if (sign == 0 && trims_newline && at("\n")) {
    advance(1);
  }
  line_starting_ = at_ > begin && source_[at_ - 1] == '\n';
}

Status Lexer::skip_comment() {
  const size_t end = find_first(source_, "#}", at_);
  if (end == std::string_view::npos) {
    return fail_at(line_, ErrorKind::kMalformed, "a comment that does not end: '#}}' is missing");
  }
  const bool signed_end = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
  advance(end - at_ - (signed_end ? 1 : 0));
  end_with("#}", true);
  return {};
}

/// Whether {% raw %} stands here, after "{%" and its sign; if so it is taken.
bool Lexer::take_raw_begin() {
  const Stripper blanks;
  std::string_view text = blanks.left(rest());
  if (!text.starts_with("raw")) return false;
  text = blanks.left(text.substr(3));
  if (!text.starts_with("%}") && !text.starts_with("-%}")) return false;
  advance(source_.size() - at_ - text.size());
  end_with("%}", false);
  return true;
}

std::optional<size_t> Lexer::find_endraw(size_t& tag_bytes, char& sign, char& end_sign) const {
  const Stripper blanks;
  for (size_t begin = find_first(source_, "{%", at_); begin != std::string_view::npos;
       begin = find_first(source_, "{%", begin + 2)) {
    std::string_view text = std::string_view(source_).substr(begin + 2);
    sign = text.starts_with('-') || text.starts_with('+') ? text.front() : '\0';
    text = blanks.left(text.substr(sign != 0 ? 1 : 0));
    if (!text.starts_with("endraw")) continue;
    text = blanks.left(text.substr(6));
    end_sign = text.starts_with('-') || text.starts_with('+') ? text.front() : '\0';
    if (!text.substr(end_sign != 0 ? 1 : 0).starts_with("%}")) continue;
    tag_bytes = source_.size() - begin - text.size();
    return begin;
  }
  return std::nullopt;
}

Status Lexer::take_raw() {
  size_t tag_bytes = 0;
  char sign = 0, end_sign = 0;
  const std::optional<size_t> end = find_endraw(tag_bytes, sign, end_sign);
  if (!end) return fail_at(line_, ErrorKind::kMalformed, "raw without endraw");
  push_text(std::string_view(source_).substr(at_, *end - at_), sign, true);
  advance(*end - at_ + tag_bytes);
  end_with("%}", true);
  return {};
}

Status Lexer::take_inside(bool is_print) {
  const std::string_view closing = is_print ? "}}" : "%}";
  push(is_print ? Token::Kind::kPrintBegin : Token::Kind::kTagBegin);
  const uint32_t begin_line = line_;
  open_.clear();
  while (true) {
    skip_blanks();
    if (at_ == source_.size()) {
      return fail_at(begin_line, ErrorKind::kMalformed, "a tag that does not end: '{}' is missing", closing);
    }
    const bool signed_end = (at("-") || (at("+") && !is_print)) && rest().substr(1).starts_with(closing);
    if (open_.empty() && (signed_end || at(closing))) {
      push(is_print ? Token::Kind::kPrintEnd : Token::Kind::kTagEnd);
      end_with(closing, !is_print);
      return {};
    }
    SOLI_RETURN_IF_ERROR(take_token());
  }
}

Status Lexer::take_token() {
  const char c = source_[at_];
  if (is_digit_byte(c)) return take_number();
  if (c == '\'' || c == '"') return take_string();
  if (!begins_name(c)) return take_operator();
  size_t end = at_;
  while (end < source_.size() && continues_name(source_[end])) ++end;
  push(Token::Kind::kName, source_.substr(at_, end - at_));
  advance(end - at_);
  return {};
}

Status Lexer::take_number() {
  const std::string_view text = rest();
  const bool after_dot = !tokens_.empty() && tokens_.back().kind == Token::Kind::kOperator &&
                         tokens_.back().text == "." && at_ > 0 && source_[at_ - 1] == '.';
  int base = 10;
  size_t end = 0;
  if (text.starts_with('0') && text.size() > 1 && !after_dot) {
    const char mark = static_cast<char>(text[1] | 0x20);
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    if (base != 10) end = 2;
  }
  const auto is_number_byte = [&](char c) {
    return is_digit_byte(c) || c == '_' || (base == 16 && ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'));
  };
  const size_t begin = end;
  while (end < text.size() && is_number_byte(text[end])) ++end;
  bool is_float = false;
  if (base == 10 && !after_dot) {
    if (end + 1 < text.size() && text[end] == '.' && is_digit_byte(text[end + 1])) {
      is_float = true;
      for (++end; end < text.size() && (is_digit_byte(text[end]) || text[end] == '_');) ++end;
    }
    size_t exponent = end + 1;
    if (end < text.size() && (text[end] | 0x20) == 'e') {
      if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
      if (exponent < text.size() && is_digit_byte(text[exponent])) {
        is_float = true;
        for (end = exponent; end < text.size() && is_digit_byte(text[end]);) ++end;
      }
    }
  }
  std::string digits(text.substr(begin, end - begin));
  std::erase(digits, '_');
  push(is_float ? Token::Kind::kFloat : Token::Kind::kInteger);
  Token& token = tokens_.back();
  const char* const last = digits.data() + digits.size();
  const auto [stop, error] = is_float ? std::from_chars(digits.data(), last, token.number)
                                      : std::from_chars(digits.data(), last, token.integer, base);
  if (error == std::errc::result_out_of_range && is_float) {
    token.number = std::strtod(digits.c_str(), nullptr);  // infinite, or 0
  } else if (error == std::errc::result_out_of_range) {
    return fail_at(line_, ErrorKind::kLimit, "the number {} is beyond the 64 bits allowed",
                   printable(text.substr(0, end)));
  }
  if (error == std::errc::invalid_argument || stop != last) {
    return fail_at(line_, ErrorKind::kMalformed, "'{}' is no number", printable(text.substr(0, end)));
  }
  advance(end);
  return {};
}

/// The value of an escape of Python's after the backslash; `text` loses what it takes. False: no escape.
bool append_escape(std::string& out, std::string_view& text) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"";
  constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
  const char c = text.front();
  if (const size_t known = kLetters.find(c); known != std::string_view::npos) {
    out += kValues[known];
    text.remove_prefix(1);
    return true;
  }
  if (c == '\n') {
    text.remove_prefix(1);
    return true;
  }
  const bool octal = c >= '0' && c <= '7';
  const size_t begin = octal ? 0 : 1;
  size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (octal) {
    while (digits < 3 && digits < text.size() && text[digits] >= '0' && text[digits] <= '7') ++digits;
  }
  if (digits == 0 || text.size() < begin + digits) return false;
  uint32_t code_point = 0;
  const char* const first = text.data() + begin;
  if (std::from_chars(first, first + digits, code_point, octal ? 8 : 16).ptr != first + digits) return false;
  append_utf8(out, code_point);
  text.remove_prefix(begin + digits);
  return true;
}

Status Lexer::take_string() {
  const char quote = source_[at_];
  size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
  if (end >= source_.size()) return fail_at(line_, ErrorKind::kMalformed, "a string that does not end");
  std::string_view raw = std::string_view(source_).substr(at_ + 1, end - at_ - 1);
  std::string value;
  while (!raw.empty()) {
    const size_t plain = std::min(raw.find('\\'), raw.size());
    value += raw.substr(0, plain);
    raw.remove_prefix(plain);
    if (raw.empty()) break;
    raw.remove_prefix(1);
    if (raw.empty() || !append_escape(value, raw)) value += '\\';  // as in Python, it stands for itself
  }
  push(Token::Kind::kString, std::move(value));
  advance(end + 1 - at_);
  return {};
}

Status Lexer::take_operator() {
  constexpr std::string_view kLong[] = {"//", "**", "==", "!=", ">=", "<="};
  constexpr std::string_view kShort = "+-/*%~[](){}><=.:|,;";
  for (const std::string_view candidate : kLong) {
    if (!at(candidate)) continue;
    push(Token::Kind::kOperator, std::string(candidate));
    advance(2);
    return {};
  }
  const char c = source_[at_];
  if (kShort.find(c) == std::string_view::npos) {
    return fail_at(line_, ErrorKind::kMalformed, "'{}' has no meaning within a tag",
                   printable(rest().substr(0, 1)));
  }
  if (c == '(' || c == '[' || c == '{') open_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
  if (c == ')' || c == ']' || c == '}') {
    if (open_.empty() || open_.back() != c) {
      return fail_at(line_, ErrorKind::kMalformed, "'{}' closes nothing", c);
    }
    open_.pop_back();
  }
  push(Token::Kind::kOperator, std::string(1, c));
  advance(1);
  return {};
}

Result<std::vector<Token>> Lexer::run() {
  while (at_ < source_.size()) {
    size_t tag = at_;
    do {
      tag = std::min(source_.find('{', tag), source_.size());
      if (tag + 1 < source_.size() &&
          std::string_view("{%#").find(source_[tag + 1]) != std::string_view::npos)
        break;
    } while (tag++ < source_.size());
    if (tag >= source_.size()) {
      push(Token::Kind::kText, source_.substr(at_));
      break;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    push_text(std::string_view(source_).substr(at_, tag - at_), sign, kind != '{');
    advance(tag + 2 - at_);
    take_sign();
    if (kind == '#') {
      SOLI_RETURN_IF_ERROR(skip_comment());
    } else if (kind == '%' && take_raw_begin()) {
      SOLI_RETURN_IF_ERROR(take_raw());
    } else {
      SOLI_RETURN_IF_ERROR(take_inside(kind == '{'));
    }
  }
  push(Token::Kind::kEnd);
  return std::move(tokens_);
}

}  // namespace

Result<std::vector<Token>> read_tokens(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return fail(ErrorKind::kLimit, "the source has {} bytes; {} are allowed", source.size(), kMaxSourceBytes);
  }
  if (!is_valid_utf8(source)) return fail(ErrorKind::kMalformed, "the source is not UTF-8");
  return Lexer(normalise_lines(source)).run();
}

}  // namespace soli::jinja
