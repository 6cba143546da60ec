#pragma once

// Operating errors are values: everything that a file, a request, a flag or the machine can get wrong
// comes back as Result<T>. Our own mistakes are SOLI_CHECK (base/check.h).

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace soli {

enum class ErrorKind {
  kInvalidArgument,  // a flag, request or parameter is not allowed; the message names it and what is
  kNotFound,         // a file, key or tensor is not there
  kMalformed,        // outside bytes break their format's rules
  kUnsupported,      // well formed, and something that soli does not run
  kLimit,            // a budget, a length or a queue is exhausted
  kIo,               // the operating system refused
  kCancelled,        // the caller asked to stop
};

struct Error {
  ErrorKind kind;
  std::string message;  // one sentence: the thing at fault, its value, what is allowed
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

template <typename... Args>
tl::unexpected<Error> fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{kind, fmt::format(format, std::forward<Args>(args)...)});
}

/// Puts "context: " before an error's message, unless it stands there already, for a caller that knows the
/// file or request at fault.
inline tl::unexpected<Error> in_context(const std::string& context, Error error) {
  const std::string prefix = context + ": ";
  if (!error.message.starts_with(prefix)) error.message = prefix + error.message;
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace soli

#define SOLI_CONCAT_INNER(a, b) a##b
#define SOLI_CONCAT(a, b) SOLI_CONCAT_INNER(a, b)

/// Returns the error of `expression` (a Status or Result) from the enclosing function, if it has one.
#define SOLI_RETURN_IF_ERROR(expression)                                                    \
  do {                                                                                      \
    auto&& soli_status = (expression);                                                      \
    if (!soli_status) return tl::unexpected<::soli::Error>(std::move(soli_status).error()); \
  } while (false)

/// `SOLI_ASSIGN_OR_RETURN(auto x, f());` declares x from a Result, or returns its error.
#define SOLI_ASSIGN_OR_RETURN(declaration, expression) \
  SOLI_ASSIGN_OR_RETURN_INNER(SOLI_CONCAT(soli_result_, __LINE__), declaration, expression)
#define SOLI_ASSIGN_OR_RETURN_INNER(result, declaration, expression)            \
  auto result = (expression);                                                   \
  if (!result) return tl::unexpected<::soli::Error>(std::move(result).error()); \
  declaration = std::move(*result)
