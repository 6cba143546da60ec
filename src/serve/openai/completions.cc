// POST /v1/completions

#include "serve/openai/endpoints.h"
#include "serve/openai/prompt_fields.h"

namespace soli::openai {
namespace {

/// OpenAI's default: this endpoint continues text that need not end.
constexpr int64_t kDefaultMaxTokens = 16;

void read_completion_logprobs(Fields& fields, const ServedModel& model, TextJob& job, Request& request) {
  job.echo = fields.boolean("echo").value_or(false);
  const std::optional<int64_t> n = fields.integer("logprobs", {0, model.limits.top_logprobs});
  if (!n) return;
  job.logprobs = true;
  job.n_top_logprobs = request.n_top_logprobs = *n;
  request.generated_detail = *n == 0 ? Detail::kLogprob : Detail::kTopLogprobs;
  if (job.echo) request.prompt_detail = request.generated_detail;
}

}  // namespace

ApiResult<TextJob> read_completion(std::string_view body, const ServedModel& model, const Caller& caller) {
  SOLI_API_ASSIGN_OR_RETURN(const Json json, read_object(body, model.limits.json));
  TextJob job{.endpoint = Endpoint::kCompletions};
  Request pattern{.max_new_tokens = kDefaultMaxTokens};
  Fields fields(json);
  read_generation(fields, model, caller, job, pattern);
  read_completion_logprobs(fields, model, job, pattern);
  fields.neutral("suffix", {""});
  fields.neutral("best_of", {job.n});
  const bool parse_special = fields.boolean("parse_special").value_or(false);
  Prompts prompts = read_prompts(fields, model, "prompt", model.limits.prompts, parse_special);
  SOLI_API_RETURN_IF_ERROR(fields.finish());
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::string param = prompts.size() == 1 ? "prompt" : fmt::format("prompt[{}]", i);
    SOLI_API_RETURN_IF_ERROR(check_prompt(model, param, prompts[i], pattern.max_new_tokens != 0));
  }
  SOLI_API_RETURN_IF_ERROR(make_requests(model, pattern, std::move(prompts), job));
  return job;
}

}  // namespace soli::openai
