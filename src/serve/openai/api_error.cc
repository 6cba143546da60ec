#include "serve/openai/api_error.h"

#include "serve/openai/json_text.h"

namespace soli::openai {

ApiError submit_error(const Error& error) {
  if (error.kind == ErrorKind::kLimit) return {429, kRateLimit, "queue_full", "", error.message};
  return {400, kInvalidRequest, "invalid_value", "", error.message};
}

ApiError run_error(const Error& error) {
  const bool may_pass = error.kind == ErrorKind::kLimit || error.kind == ErrorKind::kCancelled;
  if (error.kind == ErrorKind::kIo) return {500, kServerError, "", "", "the model could not be read"};
  return {may_pass ? 503 : 500, kServerError, "", "", error.message};
}

ApiError ending_error() {
  return {503, kServerError, "shutting_down", "", "the server ended before the request did"};
}

std::string error_body(const ApiError& error) {
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return to_text({{"error",
                   {{"message", error.message},
                    {"type", error.type},
                    {"param", text_or_null(error.param)},
                    {"code", text_or_null(error.code)}}}});
}

}  // namespace soli::openai
