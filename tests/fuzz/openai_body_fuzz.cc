// Any body is refused with an error that can be sent, or becomes requests that an engine takes.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "model/steering.h"
#include "serve/openai/answer.h"
#include "serve/openai/endpoints.h"
#include "support/served.h"

namespace {

using namespace soli;          // NOLINT
using namespace soli::openai;  // NOLINT

void check_error(const ApiError& error) {
  SOLI_CHECK(error.status == 400 || error.status == 404 || error.status == 413);
  SOLI_CHECK(!error.message.empty() && !error.code.empty() && error.type == kInvalidRequest);
  const std::string body = error_body(error);
  SOLI_CHECK(is_valid_utf8(body) && Json::parse(body).at("error").size() == 4);
}

void check_request(const ServedModel& model, const Request& request) {
  SOLI_CHECK(!request.prompt.empty());
  SOLI_CHECK(static_cast<int64_t>(request.prompt.size()) <= model.context_length);
  for (const int32_t id : request.prompt) SOLI_CHECK(id >= 0 && id < model.spec->vocab_size);
  SOLI_CHECK(request.max_new_tokens >= -1 && request.n_top_logprobs >= 0);
  SOLI_CHECK(request.sampling.validate().has_value());
  SOLI_CHECK(Steering::create(request.policy, *model.spec, model.limits.experts_per_token).has_value());
}

/// The job is answered, whatever the engine says.
void check_answer(const ServedModel& model, const TextJob& job) {
  Answer answer(model, job, "id", 1);
  std::vector<std::string> payloads;
  for (size_t i = 0; i < job.requests.size(); ++i) {
    const Request& request = job.requests[i];
    if (request.prompt_detail != Detail::kNone) {
      for (const int32_t id : request.prompt) {
        answer.push(i, {.kind = StreamEvent::Kind::kPromptToken, .token = id, .logprob = -1}, payloads);
      }
    }
    for (const int32_t id : {int32_t{'a'}, kEuroBegin, int32_t{'\n'}, kEnd}) {
      answer.push(i, {.token = id, .logprob = -INFINITY, .top_logprobs = {{id, -1}, {-1, NAN}}}, payloads);
    }
    answer.push(i, {.kind = StreamEvent::Kind::kFinished, .reason = FinishReason::kEndToken}, payloads);
  }
  SOLI_CHECK(answer.done() && !answer.error());
  answer.end(payloads);
  SOLI_CHECK(payloads.empty() != job.stream);
  if (!job.stream) payloads.push_back(answer.body());
  for (const std::string& payload : payloads) SOLI_CHECK(Json::parse(payload).is_object());
}

const serve::PolicyAllowance kAll = serve::PolicyAllowance::parse("all").value();

template <typename T>
void check(const ApiResult<T>& result) {
  if (!result) check_error(result.error());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static Served served;
  served.model.allow_policy = kAll;
  const ServedModel& model = served.model;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 8) {
    case 0:
    case 1: {
      const auto job = data[0] % 8 == 0 ? read_chat(body, model, {}) : read_completion(body, model, {});
      check(job);
      if (!job) break;
      for (const Request& request : job->requests) check_request(model, request);
      check_answer(model, *job);
      break;
    }
    case 2: {
      const auto job = read_embedding(body, model);
      check(job);
      if (!job) break;
      for (const Request& request : job->requests) check_request(model, request);
      break;
    }
    case 3:
      check(tokenize(body, model));
      break;
    case 4:
      check(detokenize(body, model));
      break;
    case 5:
      check(apply_template(body, model));
      break;
    default: {
      const auto json = read_object(body, {.bytes = 4096, .depth = 8, .values = 100, .members = 10});
      check(json);
      if (json) SOLI_CHECK(Json::parse(to_text(*json)) == *json);
    }
  }
  return 0;
}
