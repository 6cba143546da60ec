// POST /v1/embeddings

#include <cmath>
#include <iterator>

#include "base/base64.h"
#include "base/check.h"
#include "serve/openai/answer.h"
#include "serve/openai/endpoints.h"
#include "serve/openai/prompt_fields.h"

namespace soli::openai {
namespace {

/// Scaled to length 1; zeros stay.
std::vector<float> normalised(const std::vector<float>& vector) {
  double squares = 0;
  for (const float x : vector) squares += static_cast<double>(x) * static_cast<double>(x);
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  std::vector<float> result;
  result.reserve(vector.size());
  for (const float x : vector) result.push_back(static_cast<float>(static_cast<double>(x) * scale));
  return result;
}

/// The floats as they lie in memory, which is little endian wherever soli runs.
std::string base64_of(const std::vector<float>& vector) {
  std::string text;
  Base64Encoder encoder;
  encoder.append(std::as_bytes(std::span(vector)), text);
  encoder.finish(text);
  return text;
}

}  // namespace

ApiResult<EmbeddingJob> read_embedding(std::string_view body, const ServedModel& model) {
  SOLI_API_ASSIGN_OR_RETURN(const Json json, read_object(body, model.limits.json));
  EmbeddingJob job;
  Fields fields(json);
  read_model(fields, model);
  job.base64 = fields.word("encoding_format", {"float", "base64"}).value_or(0) == 1;
  const bool of_last = fields.word("pooling", {"mean", "last"}).value_or(0) == 1;
  fields.neutral("dimensions", {model.spec->hidden_size});
  fields.label("user", Json::value_t::string);
  Request pattern;
  pattern.policy = model.policy;
  pattern.max_new_tokens = 0;
  pattern.task = of_last ? Task::kEmbedLast : Task::kEmbedMean;
  read_priority(fields, pattern);
  Prompts inputs = read_prompts(fields, model, "input", model.limits.inputs, false);
  SOLI_API_RETURN_IF_ERROR(fields.finish());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string param = inputs.size() == 1 ? "input" : fmt::format("input[{}]", i);
    SOLI_API_RETURN_IF_ERROR(check_prompt(model, param, inputs[i], false));
    Request request = pattern;
    request.prompt = std::move(inputs[i]);
    job.requests.push_back(std::move(request));
  }
  return job;
}

std::string embedding_body(const ServedModel& model, const EmbeddingJob& job,
                           const std::vector<std::vector<float>>& vectors) {
  SOLI_CHECK(vectors.size() == job.requests.size());
  // As text at once: JSON values would take ten times the memory of the floats.
  std::string data;
  int64_t n_tokens = 0;
  for (size_t i = 0; i < vectors.size(); ++i) {
    const std::vector<float> vector = normalised(vectors[i]);
    fmt::format_to(std::back_inserter(data), R"({}{{"object":"embedding","index":{},"embedding":)",
                   i == 0 ? "" : ",", i);
    if (job.base64) {
      fmt::format_to(std::back_inserter(data), "\"{}\"}}", base64_of(vector));
    } else {
      fmt::format_to(std::back_inserter(data), "[{}]}}", fmt::join(vector, ","));
    }
    n_tokens += static_cast<int64_t>(job.requests[i].prompt.size());
  }
  const Json usage = {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}};
  return fmt::format(R"({{"object":"list","data":[{}],"model":{},"usage":{}}})", data, to_text(model.id),
                     to_text(usage));
}

}  // namespace soli::openai
