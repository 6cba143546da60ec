// GET /v1/models and /props

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "model/policy_text.h"
#include "serve/openai/endpoints.h"

namespace soli::openai {
namespace {

Json model_json(const ServedModel& model) {
  return {{"id", model.id},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "soli"},
          {"context_length", model.context_length}};
}

Json limits_json(const ApiLimits& limits) {
  return {{"body_bytes", limits.json.bytes},   {"json_depth", limits.json.depth},
          {"json_values", limits.json.values}, {"n", limits.choices},
          {"prompts", limits.prompts},         {"total_choices", limits.total_choices},
          {"inputs", limits.inputs},           {"stop_strings", limits.stop_strings},
          {"stop_bytes", limits.stop_bytes},   {"top_logprobs", limits.top_logprobs},
          {"logit_bias", limits.logit_bias}};
}

}  // namespace

Json expert_shape_json(const ServedModel& model) {
  const ModelSpec& spec = *model.spec;
  if (!spec.is_moe()) return nullptr;
  Json layers = Json::array();
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (spec.is_moe_layer(layer)) layers.push_back(layer);
  }
  const int64_t own = spec.router.experts_per_token;
  const int64_t most = std::min(std::max(own, model.limits.experts_per_token), spec.router.n_reachable());
  return {{"layers", std::move(layers)},
          {"per_layer", spec.router.n_experts},
          {"per_token", own},
          {"per_token_max", most}};
}

std::string models_body(std::span<const ServedModel* const> models) {
  Json data = Json::array();
  for (const ServedModel* const model : models) data.push_back(model_json(*model));
  return to_text({{"object", "list"}, {"data", std::move(data)}});
}

ApiResult<std::string> model_body(std::string_view id, std::span<const ServedModel* const> models) {
  for (const ServedModel* const model : models) {
    if (model->id == id) return to_text(model_json(*model));
  }
  return tl::unexpected(ApiError{404, kInvalidRequest, "model_not_found", "model",
                                 fmt::format("the model '{}' is not served here", printable(id))});
}

std::string props_body(const ServedModel& model) {
  const ModelSpec& spec = *model.spec;
  const Tokenizer& tokenizer = *model.tokenizer;
  const auto token_text = [&](std::optional<int32_t> id) {
    return id ? Json(tokenizer.token_text(*id)) : Json();
  };
  return to_text({{"model", model.id},
                  {"architecture", spec.architecture},
                  {"context_length", model.context_length},
                  {"vocab_size", spec.vocab_size},
                  {"hidden_size", spec.hidden_size},
                  {"layers", spec.n_layers},
                  {"experts", expert_shape_json(model)},
                  {"parameters", model.parameters->nominal_total.parameters},
                  {"weight_bytes", model.parameters->nominal_total.bytes},
                  {"exact", model.exact},
                  {"policy", policy_json(model.policy)},
                  {"allow_policy", model.allow_policy.keys()},
                  {"bos_token", token_text(tokenizer.bos())},
                  {"eos_token", token_text(tokenizer.eos())},
                  {"chat_template", model.chat_template == nullptr ? Json() : Json(model.chat_template_text)},
                  {"limits", limits_json(model.limits)}});
}

}  // namespace soli::openai
