// POST /tokenize, /detokenize and /apply-template

#include "base/utf8.h"
#include "serve/openai/chat_fields.h"
#include "serve/openai/endpoints.h"
#include "serve/openai/prompt_fields.h"

namespace soli::openai {
namespace {

Json with_pieces(const ServedModel& model, const std::vector<int32_t>& ids) {
  Json tokens = Json::array();
  for (const int32_t id : ids) {
    const std::string_view piece = model.tokenizer->piece(id, true);
    Json entry = {{"id", id}};
    if (is_valid_utf8(piece)) {
      entry["piece"] = piece;
    } else {
      entry["piece"] = std::vector<uint8_t>(piece.begin(), piece.end());
    }
    tokens.push_back(std::move(entry));
  }
  return tokens;
}

}  // namespace

ApiResult<std::string> tokenize(std::string_view body, const ServedModel& model) {
  SOLI_API_ASSIGN_OR_RETURN(const Json json, read_object(body, model.limits.json));
  Fields fields(json);
  read_model(fields, model);
  const std::optional<std::string> content = fields.text("content");
  const bool add_special = fields.boolean("add_special").value_or(false);
  const bool parse_special = fields.boolean("parse_special").value_or(false);
  const bool pieces = fields.boolean("with_pieces").value_or(false);
  if (!content) {
    fields.fail(
        bad_request("missing_required_parameter", "content", "'content' is missing; a string is wanted"));
  }
  SOLI_API_RETURN_IF_ERROR(fields.finish());
  const auto ids =
      model.tokenizer->encode(*content, {.add_special = add_special, .parse_special = parse_special});
  if (!ids) {
    return tl::unexpected(
        bad_request("invalid_value", "content", "'content' cannot be encoded: {}", ids.error().message));
  }
  return to_text({{"tokens", pieces ? with_pieces(model, *ids) : Json(*ids)}});
}

ApiResult<std::string> detokenize(std::string_view body, const ServedModel& model) {
  SOLI_API_ASSIGN_OR_RETURN(const Json json, read_object(body, model.limits.json));
  Fields fields(json);
  read_model(fields, model);
  const bool render_special = fields.boolean("render_special").value_or(true);
  std::vector<int32_t> ids;
  if (const Json* const tokens = fields.find("tokens"); tokens != nullptr) {
    ids = read_token_ids(fields, model, "tokens", *tokens);
  } else {
    fields.fail(
        bad_request("missing_required_parameter", "tokens", "'tokens' is missing; a list of ids is wanted"));
  }
  SOLI_API_RETURN_IF_ERROR(fields.finish());
  const std::string text = model.tokenizer->decode(ids, {.render_special = render_special});
  return to_text({{"content", replace_invalid_utf8(text)}});
}

ApiResult<std::string> apply_template(std::string_view body, const ServedModel& model) {
  SOLI_API_ASSIGN_OR_RETURN(const Json json, read_object(body, model.limits.json));
  Fields fields(json);
  read_model(fields, model);
  const ChatInputs inputs = read_chat_inputs(fields, model);
  fields.neutral("tools", {Json::array()});
  SOLI_API_RETURN_IF_ERROR(fields.finish());
  SOLI_API_ASSIGN_OR_RETURN(const std::string prompt, render_chat(model, inputs));
  return to_text({{"prompt", prompt}});
}

}  // namespace soli::openai
