#include "format/hf/decoder.h"

#include <memory>
#include <utility>

#include "base/utf8.h"
#include "format/hf/normalizer.h"
#include "format/hf/pattern.h"
#include "format/hf/pretokenizer.h"
#include "format/hf/unicode.h"
#include "format/tokenizer_spec.h"
#include "format/tokenizer_vocabulary.h"

namespace soli::hf {
namespace {

/// Tokens with a character that stands for no byte stay as they are.
std::string bytes_of(const std::string& token) {
  std::string out;
  for (std::string_view rest = token; !rest.empty();) {
    const std::string_view character = rest.substr(0, utf8_front(rest).bytes);
    const auto byte = byte_of_printable(character);
    if (!byte) return token;
    out.push_back(static_cast<char>(*byte));
    rest.remove_prefix(character.size());
  }
  return out;
}

std::string byte_or_text(const std::string& token) {
  const auto byte = byte_of_token_text(token);
  return byte ? std::string(1, static_cast<char>(*byte)) : token;
}

/// Takes up to `start` copies of a character off the beginning, and up to `stop` off the end.
std::string stripped(std::string_view token, std::string_view character, int64_t start, int64_t stop) {
  for (; start > 0 && token.starts_with(character); --start) token.remove_prefix(character.size());
  for (; stop > 0 && token.ends_with(character); --stop) token.remove_suffix(character.size());
  return std::string(token);
}

}  // namespace

Decoder::Decoder() : strips_blank_(true) {
  steps_.push_back([](const std::string& token) -> Result<std::string> { return " " + token; });
}

Result<Decoder> Decoder::read(const JsonValue& value) {
  Decoder decoder{None{}};
  SOLI_RETURN_IF_ERROR(decoder.add(value));
  return decoder;
}

Result<std::string> Decoder::piece(std::string_view token) const {
  std::string text(token);
  for (const Step& step : steps_) {
    SOLI_ASSIGN_OR_RETURN(text, step(std::move(text)));
  }
  return text;
}

Status Decoder::add_step(const JsonValue& value, Step step) {
  if (steps_.size() == kMaxSteps) {
    return fail(ErrorKind::kLimit, "{} is one step more than the {} allowed", value.path(), kMaxSteps);
  }
  if (fused_) {
    return fail(ErrorKind::kUnsupported, "{} comes after Fuse, where only a Strip of one blank is supported",
                value.path());
  }
  steps_.push_back(std::move(step));
  return {};
}

Status Decoder::add(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const std::string type, value.text_at("type"));
  if (type == "Sequence") return add_sequence(value);
  if (type == "Fuse") {
    fused_ = true;
    return {};
  }
  if (type == "ByteLevel") {
    return add_step(value, [](const std::string& token) -> Result<std::string> { return bytes_of(token); });
  }
  if (type == "ByteFallback") {
    return add_step(value,
                    [](const std::string& token) -> Result<std::string> { return byte_or_text(token); });
  }
  if (type == "Strip") return add_strip(value);
  if (type == "Replace") return add_replace(value);
  if (type == "Metaspace") return add_metaspace(value);
  return fail(
      ErrorKind::kUnsupported,
      "{}.type is '{}'; supported are ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence and Strip",
      value.path(), printable(type));
}

Status Decoder::add_sequence(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const JsonValue list, value.at("decoders"));
  SOLI_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, list.items(kMaxSteps));
  for (const JsonValue& item : items) SOLI_RETURN_IF_ERROR(add(item));
  return {};
}

Status Decoder::add_strip(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const std::string character, value.text_or("content", " "));
  const Utf8Unit unit = utf8_front(character);
  if (unit.bytes == 0 || unit.bytes != character.size()) {
    return fail(ErrorKind::kMalformed, "{}.content is '{}'; one character is allowed", value.path(),
                printable(character));
  }
  SOLI_ASSIGN_OR_RETURN(const int64_t start, value.integer_or("start", 0, kMaxTokenBytes, 0));
  SOLI_ASSIGN_OR_RETURN(const int64_t stop, value.integer_or("stop", 0, kMaxTokenBytes, 0));
  if (fused_ && character == " " && start <= 1 && stop == 0) {
    strips_blank_ |= start == 1;
    return {};
  }
  return add_step(value, [character, start, stop](const std::string& token) -> Result<std::string> {
    return stripped(token, character, start, stop);
  });
}

Status Decoder::add_replace(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const JsonValue at, value.at("pattern"));
  if (at.find("Regex")) return at.wrong("an object with 'String'");
  SOLI_ASSIGN_OR_RETURN(Pattern pattern, Pattern::read(at));
  SOLI_ASSIGN_OR_RETURN(const std::string content, value.text_at("content"));
  return add_step(value,
                  [pattern = std::make_shared<const Pattern>(std::move(pattern)),
                   content](const std::string& token) -> Result<std::string> {
                    return replaced(token, *pattern, content, kMaxTokenBytes);
                  });
}

Status Decoder::add_metaspace(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const Metaspace metaspace, Metaspace::read(value));
  if (metaspace.prepend != Metaspace::Prepend::kNever) strips_blank_ = true;
  auto pattern = std::make_shared<const Pattern>(Pattern::of_text(metaspace.replacement));
  return add_step(value, [pattern](const std::string& token) -> Result<std::string> {
    return replaced(token, *pattern, " ", kMaxTokenBytes);
  });
}

}  // namespace soli::hf
