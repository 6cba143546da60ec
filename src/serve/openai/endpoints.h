#pragma once

// Bodies to jobs, and bodies to answers where no model is needed. Pure: no state, no sockets, no waiting; any
// thread may call. Time grows with the body (n log n): a long prompt takes some milliseconds to encode.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/openai/api_error.h"
#include "serve/openai/job.h"
#include "serve/openai/served_model.h"

namespace soli::openai {

/// POST /v1/chat/completions
ApiResult<TextJob> read_chat(std::string_view body, const ServedModel& model, const Caller& caller);
/// POST /v1/completions
ApiResult<TextJob> read_completion(std::string_view body, const ServedModel& model, const Caller& caller);
/// POST /v1/embeddings
ApiResult<EmbeddingJob> read_embedding(std::string_view body, const ServedModel& model);

/// POST /tokenize: {"content"} to {"tokens"}.
ApiResult<std::string> tokenize(std::string_view body, const ServedModel& model);
/// POST /detokenize: {"tokens"} to {"content"}.
ApiResult<std::string> detokenize(std::string_view body, const ServedModel& model);
/// POST /apply-template: {"messages"} to {"prompt"}.
ApiResult<std::string> apply_template(std::string_view body, const ServedModel& model);

/// GET /v1/models
std::string models_body(std::span<const ServedModel* const> models);
/// GET /v1/models/{id}; 404 where it is another.
ApiResult<std::string> model_body(std::string_view id, std::span<const ServedModel* const> models);
/// Of /props: which layers have experts, how many, and how many a token may use. null of a dense model.
Json expert_shape_json(const ServedModel& model);
/// GET /props
std::string props_body(const ServedModel& model);

}  // namespace soli::openai
