#pragma once

// Errors as the API of OpenAI shows them.

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "base/result.h"

namespace soli::openai {

/// What an endpoint answers where it fails.
struct ApiError {
  int status = 400;          // of HTTP
  std::string type;          // kind of error: kInvalidRequest and so on
  std::string code;          // machine-readable, such as "unknown_parameter"; "": none
  std::string param;         // the parameter at fault, such as "messages[2].content"; "": none
  std::string message = {};  // one sentence: the thing at fault, its value, what is allowed

  bool operator==(const ApiError&) const = default;
};

inline constexpr const char* kInvalidRequest = "invalid_request_error";
inline constexpr const char* kRateLimit = "rate_limit_error";
inline constexpr const char* kServerError = "server_error";

template <typename T>
using ApiResult = tl::expected<T, ApiError>;
using ApiStatus = ApiResult<void>;

/// A 400 that names a parameter.
template <typename... Args>
ApiError bad_request(std::string code, std::string param, fmt::format_string<Args...> format,
                     Args&&... args) {
  return {400, kInvalidRequest, std::move(code), std::move(param),
          fmt::format(format, std::forward<Args>(args)...)};
}

/// The error of a request that the engine did not take: 400 for one that it cannot serve, 429 for a full
/// queue.
ApiError submit_error(const Error& error);
/// The error of a request that failed underway: 500, or 503 where memory was exhausted or the server ends.
/// Where the operating system refused something, clients are not told what: its messages name files.
ApiError run_error(const Error& error);
/// The error of a request that the server does not wait for, since it ends: 503.
ApiError ending_error();

/// {"error":{"message","type","param","code"}}
std::string error_body(const ApiError& error);

}  // namespace soli::openai

/// Returns the error of an ApiResult from the enclosing function, if it has one.
#define SOLI_API_RETURN_IF_ERROR(expression)                                 \
  do {                                                                       \
    auto&& soli_status = (expression);                                       \
    if (!soli_status) return tl::unexpected(std::move(soli_status).error()); \
  } while (false)

/// As SOLI_ASSIGN_OR_RETURN, for an ApiResult.
#define SOLI_API_ASSIGN_OR_RETURN(declaration, expression) \
  SOLI_API_ASSIGN_OR_RETURN_INNER(SOLI_CONCAT(soli_result_, __LINE__), declaration, expression)
#define SOLI_API_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                            \
  if (!result) return tl::unexpected(std::move(result).error());         \
  declaration = std::move(*result)
