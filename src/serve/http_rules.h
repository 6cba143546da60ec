#pragma once

// The rules of HTTP/1.1 that are checked on top of the parser, and the text of heads of answers. Pure
// functions.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http.h"

namespace soli::serve {

struct HttpRefusal {
  int status = 400;
  std::string message;
};

/// Whether that is written as an address or a name that a server could listen on. What only looks like an
/// address ("999.1.1.1"), "" and "*" are neither.
bool is_host(const std::string& text);

/// Which names a request may call this server by. A page in a browser can make its own name point to a
/// loopback address (DNS rebinding); the name that it then sends gives it away.
struct HostPolicy {
  bool any = false;                // bound to addresses that others reach: names are theirs to choose
  std::vector<std::string> names;  // lower case, without port

  /// `authority` is the value of Host: a name or address, perhaps with a port. Addresses and localhost are
  /// always allowed: they resolve without anybody's help.
  bool allows(std::string_view authority) const;
};

/// Splits a request target into request.path and request.query, and checks Host against the policy.
/// Absolute targets (http://host/path) are taken by their host.
std::optional<HttpRefusal> take_target(std::string_view target, const HostPolicy& policy,
                                       HttpRequest& request);

/// What lies about where the message ends: Transfer-Encoding other than chunked, beside Content-Length, in
/// HTTP/1.0, or either of them twice. And a number of fields above the limit, and Expect with other words.
std::optional<HttpRefusal> check_head(const HttpRequest& request, const HttpLimits& limits);

/// Whether the value of Content-Type is JSON: application/json or application/…+json, with any parameters.
bool is_json(std::string_view content_type);

/// What the body of an answer is framed by.
enum class Framing {
  kLength,   // Content-Length
  kChunked,  // Transfer-Encoding: chunked
  kClose,    // the end of the connection: HTTP/1.0 knows no chunks
};

/// Status line and fields, with the empty line at the end. Control characters in values become '?'.
std::string serialise_head(const HttpResponse& response, Framing framing, bool keep_alive,
                           const std::string& request_id);

/// `bytes` as one chunk of a chunked body. An empty one would end the body, and is not allowed.
std::string as_chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

/// "Too Many Requests".
std::string_view reason_phrase(int status);

}  // namespace soli::serve
