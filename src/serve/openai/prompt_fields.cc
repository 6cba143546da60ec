#include "serve/openai/prompt_fields.h"

#include <utility>

namespace soli::openai {
namespace {

constexpr const char* kForms = "a string, a list of strings, a list of token ids, or a list of such lists";

std::vector<int32_t> encode(Fields& fields, const ServedModel& model, const std::string& path,
                            const Json& text, bool parse_special) {
  if (!text.is_string()) {
    fields.fail_value(path, text, "a string, as the others are");
    return {};
  }
  auto ids = model.tokenizer->encode(text.get_ref<const std::string&>(), {.parse_special = parse_special});
  if (ids) return *std::move(ids);
  const std::string param = fields.path_of(path);
  fields.fail(bad_request("invalid_value", param, "'{}' cannot be encoded: {}", param, ids.error().message));
  return {};
}

}  // namespace

std::vector<int32_t> read_token_ids(Fields& fields, const ServedModel& model, const std::string& path,
                                    const Json& list) {
  if (!list.is_array()) {
    fields.fail_value(path, list, "a list of token ids");
    return {};
  }
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const Json& id : list) {
    // A number beyond int64 reads as a negative one here.
    const int64_t token = id.is_number_integer() ? id.get<int64_t>() : -1;
    if (token < 0 || token >= model.spec->vocab_size) {
      fields.fail_value(fmt::format("{}[{}]", path, ids.size()), id,
                        fmt::format("a token id from 0 to {}", model.spec->vocab_size - 1));
      return {};
    }
    ids.push_back(static_cast<int32_t>(token));
  }
  return ids;
}

Prompts read_prompts(Fields& fields, const ServedModel& model, std::string_view name, int64_t most,
                     bool parse_special) {
  const std::string path(name);
  const Json* const value = fields.find(name);
  if (value == nullptr) {
    fields.fail(
        bad_request("missing_required_parameter", path, "'{}' is missing; {} is wanted", path, kForms));
    return {};
  }
  if (value->is_string()) return {encode(fields, model, path, *value, parse_special)};
  if (!value->is_array() || value->empty()) {
    fields.fail_value(name, *value, kForms);
    return {};
  }
  const Json& first = value->front();
  if (first.is_number()) return {read_token_ids(fields, model, path, *value)};
  if (!first.is_string() && !first.is_array()) {
    fields.fail_value(path + "[0]", first, kForms);
    return {};
  }
  if (value->size() > static_cast<size_t>(most)) {
    fields.fail_value(name, *value, fmt::format("up to {} of them", most));
    return {};
  }
  Prompts prompts;
  for (const Json& element : *value) {
    if (fields.failed()) break;
    const std::string place = fmt::format("{}[{}]", path, prompts.size());
    prompts.push_back(first.is_string() ? encode(fields, model, place, element, parse_special)
                                        : read_token_ids(fields, model, place, element));
  }
  return prompts;
}

ApiStatus check_prompt(const ServedModel& model, const std::string& param, const std::vector<int32_t>& prompt,
                       bool wants_answer) {
  const auto n = static_cast<int64_t>(prompt.size());
  if (n == 0) {
    return tl::unexpected(
        bad_request("invalid_value", param, "'{}' is empty; at least one token is wanted", param));
  }
  const int64_t most = model.context_length - (wants_answer ? 1 : 0);
  if (n <= most) return {};
  return tl::unexpected(bad_request("context_length_exceeded", param,
                                    "'{}' has {} tokens, and the context holds {}{}", param, n,
                                    model.context_length, wants_answer ? ", the answer included" : ""));
}

}  // namespace soli::openai
