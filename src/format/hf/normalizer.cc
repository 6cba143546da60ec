#include "format/hf/normalizer.h"

#include <memory>
#include <utility>

#include "base/utf8.h"
#include "format/hf/pattern.h"
#include "format/hf/unicode.h"
#include "format/tokenizer_spec.h"

namespace soli::hf {
namespace {

Result<std::string> text_within(const JsonValue& value, std::string_view key) {
  SOLI_ASSIGN_OR_RETURN(std::string text, value.text_at(key));
  if (text.size() > kMaxTokenBytes) {
    return fail(ErrorKind::kLimit, "{}.{} has {} bytes; {} are allowed", value.path(), key, text.size(),
                kMaxTokenBytes);
  }
  return text;
}

std::string lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Unit unit = utf8_front(text);
    append_lower(out, unit.code_point);
    text.remove_prefix(unit.bytes);
  }
  return out;
}

std::string without_marks(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Unit unit = utf8_front(text);
    if (!is_mark(unit.code_point)) out += text.substr(0, unit.bytes);
    text.remove_prefix(unit.bytes);
  }
  return out;
}

}  // namespace

Result<Normalizer> Normalizer::read(const JsonValue& value) {
  Normalizer normalizer;
  SOLI_RETURN_IF_ERROR(normalizer.add(value));
  return normalizer;
}

Status Normalizer::add_sequence(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const JsonValue list, value.at("normalizers"));
  SOLI_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, list.items(kMaxSteps));
  for (const JsonValue& item : items) SOLI_RETURN_IF_ERROR(add(item));
  return {};
}

Status Normalizer::add(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const std::string type, value.text_at("type"));
  const auto push = [&](Step step) -> Status {
    if (steps_.size() == kMaxSteps) {
      return fail(ErrorKind::kLimit, "{} is one step more than the {} allowed", value.path(), kMaxSteps);
    }
    steps_.push_back(std::move(step));
    return {};
  };
  const auto push_read = [&](Result<Step> step) -> Status {
    if (!step) return tl::unexpected<Error>(std::move(step).error());
    return push(*std::move(step));
  };
  const auto push_form = [&](NormalForm form) {
    return push(
        [form](const std::string& text, size_t max_bytes) { return normalized(text, form, max_bytes); });
  };
  if (type == "Sequence") return add_sequence(value);
  if (type == "NFC") return push_form(NormalForm::kNfc);
  if (type == "NFD") return push_form(NormalForm::kNfd);
  if (type == "NFKC") return push_form(NormalForm::kNfkc);
  if (type == "NFKD") return push_form(NormalForm::kNfkd);
  if (type == "Lowercase") return push([](const std::string& text, size_t) { return lower(text); });
  if (type == "StripAccents")
    return push([](const std::string& text, size_t) { return without_marks(text); });
  if (type == "Strip") return push_read(read_strip(value));
  if (type == "Replace") return push_read(read_replace(value));
  if (type == "Prepend") return push_read(read_prepend(value));
  return fail(
      ErrorKind::kUnsupported,
      "{}.type is '{}'; supported are Lowercase, NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence, Strip "
      "and StripAccents",
      value.path(), printable(type));
}

Result<Normalizer::Step> Normalizer::read_strip(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const bool left, value.flag_or("strip_left", true));
  SOLI_ASSIGN_OR_RETURN(const bool right, value.flag_or("strip_right", true));
  return [left, right](const std::string& text, size_t) -> Result<std::string> {
    std::string_view rest = text;
    if (left) rest.remove_prefix(leading_white_space(rest));
    if (right) rest.remove_suffix(trailing_white_space(rest));
    return std::string(rest);
  };
}

Result<Normalizer::Step> Normalizer::read_replace(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const JsonValue at, value.at("pattern"));
  SOLI_ASSIGN_OR_RETURN(Pattern read, Pattern::read(at));
  SOLI_ASSIGN_OR_RETURN(const std::string content, text_within(value, "content"));
  // Shared, since a std::function must be copyable.
  return
      [pattern = std::make_shared<const Pattern>(std::move(read)), content](
          const std::string& text, size_t max_bytes) { return replaced(text, *pattern, content, max_bytes); };
}

Result<Normalizer::Step> Normalizer::read_prepend(const JsonValue& value) {
  SOLI_ASSIGN_OR_RETURN(const std::string prefix, text_within(value, "prepend"));
  return [prefix](const std::string& text, size_t) -> Result<std::string> {
    return text.empty() ? text : prefix + text;
  };
}

Result<std::string> Normalizer::apply(std::string text) const {
  const size_t max_bytes = max_grown_bytes(text.size());
  for (const Step& step : steps_) {
    SOLI_ASSIGN_OR_RETURN(text, step(std::move(text), max_bytes));
    if (text.size() > max_bytes) return too_long(max_bytes);
  }
  return text;
}

}  // namespace soli::hf
