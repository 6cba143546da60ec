#include "engine/request_check.h"

namespace soli {
namespace {

Status check_prompt(const std::vector<int32_t>& prompt, const ModelSpec& spec, int64_t context_length) {
  if (prompt.empty())
    return fail(ErrorKind::kInvalidArgument, "the prompt is empty; it needs at least one token");
  if (static_cast<int64_t>(prompt.size()) > context_length) {
    return fail(ErrorKind::kInvalidArgument, "the prompt has {} tokens, and the context holds {}",
                prompt.size(), context_length);
  }
  for (const int32_t token : prompt) {
    if (token < 0 || token >= spec.vocab_size) {
      return fail(ErrorKind::kInvalidArgument, "token id {} is not in the vocabulary; 0 to {}", token,
                  spec.vocab_size - 1);
    }
  }
  return {};
}

Status check_task(const Request& request, const ModelSpec& spec, const RequestLimits& limits) {
  if (request.task != Task::kGenerate && request.prompt_detail != Detail::kNone)
    return fail(ErrorKind::kInvalidArgument, "an embedding has no logits; its prompt detail must be none");
  if (!request.want_routing) return {};
  if (!spec.is_moe())
    return fail(ErrorKind::kInvalidArgument, "routing: this model is dense, and routes nothing");
  if (!limits.keeps_routing)
    return fail(ErrorKind::kInvalidArgument, "routing: this engine was made without keeping any");
  return {};
}

}  // namespace

Status check_request(const Request& request, const ModelSpec& spec, const RequestLimits& limits) {
  SOLI_RETURN_IF_ERROR(check_prompt(request.prompt, spec, limits.context_length));
  if (request.max_new_tokens < -1) {
    return fail(ErrorKind::kInvalidArgument, "new tokens: {} is not allowed; -1 for no limit, 0 or more",
                request.max_new_tokens);
  }
  if (request.adapter != -1)
    return fail(ErrorKind::kInvalidArgument, "adapter {} is not loaded", request.adapter);
  if (request.n_top_logprobs < 0) {
    return fail(ErrorKind::kInvalidArgument, "top logprobs: {} is not allowed; 0 or more",
                request.n_top_logprobs);
  }
  SOLI_RETURN_IF_ERROR(check_task(request, spec, limits));
  return request.sampling.validate();
}

Result<std::shared_ptr<const Steering>> resolve_policy(const RoutingPolicy& policy, const ModelSpec& spec,
                                                       const RequestLimits& limits) {
  SOLI_ASSIGN_OR_RETURN(std::shared_ptr<const Steering> steering,
                        Steering::create(policy, spec, limits.max_experts_per_token));
  if (steering == nullptr || !steering->is_stateful() || limits.keeps_steering_state) return steering;
  return fail(
      ErrorKind::kInvalidArgument,
      "policy: smoothing, context_gate and capacity_factor look at the tokens before, and this engine "
      "was made without keeping their routing");
}

}  // namespace soli
