#include "format/jinja/token_reader.h"

#include "base/utf8.h"

namespace soli::jinja {
namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case Token::Kind::kText:
      return "text";
    case Token::Kind::kPrintBegin:
      return "'{{'";
    case Token::Kind::kPrintEnd:
      return "'}}'";
    case Token::Kind::kTagBegin:
      return "'{%'";
    case Token::Kind::kTagEnd:
      return "'%}'";
    case Token::Kind::kName:
    case Token::Kind::kOperator:
      return fmt::format("'{}'", printable(token.text));
    case Token::Kind::kString:
      return "a string";
    case Token::Kind::kInteger:
    case Token::Kind::kFloat:
      return "a number";
    case Token::Kind::kEnd:
      break;
  }
  return "the end of the template";
}

}  // namespace

tl::unexpected<Error> TokenReader::unexpected(std::string_view wanted) const {
  return fail_at(line(), ErrorKind::kMalformed, "found {} where {} is wanted", describe(now()), wanted);
}

}  // namespace soli::jinja
