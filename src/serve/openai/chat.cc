// POST /v1/chat/completions

#include "serve/openai/chat_fields.h"
#include "serve/openai/endpoints.h"
#include "serve/openai/prompt_fields.h"

namespace soli::openai {
namespace {

void read_chat_logprobs(Fields& fields, const ServedModel& model, TextJob& job, Request& request) {
  job.logprobs = fields.boolean("logprobs").value_or(false);
  const int64_t n = fields.integer("top_logprobs", {0, model.limits.top_logprobs}).value_or(0);
  if (n > 0 && !job.logprobs) {
    return fields.fail(bad_request("invalid_value", "top_logprobs",
                                   "'top_logprobs' is {}; allowed with \"logprobs\": true", n));
  }
  if (!job.logprobs) return;
  job.n_top_logprobs = request.n_top_logprobs = n;
  request.generated_detail = n == 0 ? Detail::kLogprob : Detail::kTopLogprobs;
}

/// Parameters of OpenAI's that this server does not do, with the values that ask for nothing.
void read_neutral(Fields& fields) {
  fields.neutral("tools", {Json::array()});
  fields.neutral("tool_choice", {"none", "auto"});
  fields.neutral("parallel_tool_calls", {true, false});
  fields.neutral("functions", {Json::array()});
  fields.neutral("function_call", {"none", "auto"});
  fields.neutral("response_format", {Json({{"type", "text"}})});
  fields.neutral("modalities", {Json::array({"text"})});
  fields.neutral("audio", {});
  fields.neutral("prediction", {});
  fields.neutral("web_search_options", {});
  fields.neutral("moderation", {});
  fields.neutral("verbosity", {"medium"});
  fields.neutral("service_tier", {"auto", "default"});
  fields.neutral("store", {false});
  fields.neutral("prompt_cache_options", {});
  fields.neutral("prompt_cache_retention", {"in_memory"});
  fields.label("metadata", Json::value_t::object);
  fields.label("prompt_cache_key", Json::value_t::string);
  fields.label("safety_identifier", Json::value_t::string);
}

}  // namespace

ApiResult<TextJob> read_chat(std::string_view body, const ServedModel& model, const Caller& caller) {
  SOLI_API_ASSIGN_OR_RETURN(const Json json, read_object(body, model.limits.json));
  TextJob job{.endpoint = Endpoint::kChat};
  Request pattern;
  Fields fields(json);
  const ChatInputs inputs = read_chat_inputs(fields, model);
  read_generation(fields, model, caller, job, pattern);
  read_chat_logprobs(fields, model, job, pattern);
  read_neutral(fields);
  SOLI_API_RETURN_IF_ERROR(fields.finish());
  SOLI_API_ASSIGN_OR_RETURN(const std::string text, render_chat(model, inputs));
  auto prompt = encode_conversation(*model.tokenizer, text);
  if (!prompt) {
    return tl::unexpected(bad_request("invalid_value", "messages", "{}", prompt.error().message));
  }
  SOLI_API_RETURN_IF_ERROR(check_prompt(model, "messages", *prompt, pattern.max_new_tokens != 0));
  SOLI_API_RETURN_IF_ERROR(make_requests(model, pattern, {*std::move(prompt)}, job));
  return job;
}

}  // namespace soli::openai
