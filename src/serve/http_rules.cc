#include "serve/http_rules.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "base/check.h"
#include "base/utf8.h"

namespace soli::serve {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

bool is_address(const std::string& host) {
  unsigned char bytes[16];
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    return ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), bytes) == 1;
  return ::inet_pton(AF_INET, host.c_str(), bytes) == 1;
}

/// The name in "name:port", or nothing where that is no authority.
std::optional<std::string> host_of(std::string_view authority) {
  const size_t end_of_address = authority.starts_with('[') ? authority.find(']') : 0;
  if (end_of_address == std::string_view::npos) return {};
  const size_t colon = authority.find(':', end_of_address);
  const std::string_view host = authority.substr(0, colon);
  if (colon != std::string_view::npos) {
    const std::string_view port = authority.substr(colon + 1);
    const bool is_number = std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number || port.size() > 5) return {};
  }
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789-._[]:";
  std::string name = lowered(host);
  if (name.empty() || name.size() > 255 || name.find_first_not_of(kAllowed) != std::string::npos) return {};
  return name;
}

int count(const HttpRequest& request, std::string_view name) {
  return static_cast<int>(std::count_if(request.headers.begin(), request.headers.end(),
                                        [&](const HttpHeader& header) { return header.name == name; }));
}

std::string date_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  ::gmtime_r(&now, &utc);
  char text[40];
  const size_t n = std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  return std::string(text, n);
}

void append_value(std::string& out, std::string_view value) {
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    out += (byte < 0x20 && c != '\t') || byte == 0x7f ? '?' : c;
  }
}

void append_header(std::string& out, std::string_view name, std::string_view value) {
  append_value(out, name);
  out += ": ";
  append_value(out, value);
  out += "\r\n";
}

}  // namespace

const std::string* HttpRequest::find_header(std::string_view name) const {
  for (const HttpHeader& header : headers) {
    if (header.name == name) return &header.value;
  }
  return nullptr;
}

bool is_host(const std::string& text) {
  unsigned char bytes[16];
  constexpr std::string_view kOfNames = "abcdefghijklmnopqrstuvwxyz0123456789-._";
  if (text.empty() || text.size() > 255) return false;
  if (text.find(':') != std::string::npos)  // a zone may follow: fe80::1%eth0
    return ::inet_pton(AF_INET6, text.substr(0, text.find('%')).c_str(), bytes) == 1;
  if (text.find_first_not_of("0123456789.") == std::string::npos)
    return ::inet_pton(AF_INET, text.c_str(), bytes) == 1;
  return lowered(text).find_first_not_of(kOfNames) == std::string::npos;
}

bool HostPolicy::allows(std::string_view authority) const {
  const std::optional<std::string> host = host_of(authority);
  if (!host) return false;
  if (any || is_address(*host) || *host == "localhost") return true;
  return std::find(names.begin(), names.end(), *host) != names.end();
}

std::optional<HttpRefusal> take_target(std::string_view target, const HostPolicy& policy,
                                       HttpRequest& request) {
  const int n_hosts = count(request, "host");
  if (n_hosts > 1 || (n_hosts == 0 && request.minor_version >= 1))
    return HttpRefusal{400, fmt::format("{} Host fields; a request has one", n_hosts)};
  const std::string* const host = request.find_header("host");
  std::string_view authority = host != nullptr ? std::string_view(*host) : "localhost";
  std::string_view path = target;
  if (lowered(target.substr(0, 7)) == "http://") {
    const std::string_view rest = target.substr(7);
    const size_t end = std::min(rest.find_first_of("/?"), rest.size());
    authority = rest.substr(0, end);
    path = rest.substr(end);
    if (path.empty()) path = "/";
  }
  if (!policy.allows(authority)) {
    return HttpRefusal{421, fmt::format("Host '{}' is not a name of this server", printable(authority, 100))};
  }
  const bool is_asterisk = path == "*" && request.method == "OPTIONS";
  if (!path.starts_with('/') && !is_asterisk)
    return HttpRefusal{400, fmt::format("target '{}': a path begins with '/'", printable(target, 100))};
  const size_t question = path.find('?');
  request.path = path.substr(0, question);
  request.query = question == std::string_view::npos ? "" : path.substr(question + 1);
  return {};
}

std::optional<HttpRefusal> check_head(const HttpRequest& request, const HttpLimits& limits) {
  const auto n_fields = static_cast<int64_t>(request.headers.size());
  if (n_fields > limits.max_header_fields) {
    return HttpRefusal{431,
                       fmt::format("{} header fields; {} are allowed", n_fields, limits.max_header_fields)};
  }
  const int n_encodings = count(request, "transfer-encoding");
  const int n_lengths = count(request, "content-length");
  if (n_lengths > 1 || n_encodings > 1 || (n_lengths > 0 && n_encodings > 0)) {
    return HttpRefusal{400,
                       "Content-Length and Transfer-Encoding: a request has one of the two, once, or none"};
  }
  if (n_encodings == 1) {
    const std::string& value = *request.find_header("transfer-encoding");
    if (request.minor_version == 0) return HttpRefusal{400, "Transfer-Encoding: HTTP/1.0 does not know it"};
    if (lowered(value) != "chunked") {
      return HttpRefusal{
          501, fmt::format("Transfer-Encoding '{}': only 'chunked' is understood", printable(value, 100))};
    }
  }
  if (n_lengths == 1) {
    const std::string& value = *request.find_header("content-length");
    const bool is_number =
        std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number || value.empty() || value.size() > 19)
      return HttpRefusal{400, fmt::format("Content-Length '{}' is not a length", printable(value, 100))};
  }
  const std::string* const expect = request.find_header("expect");
  if (expect != nullptr && lowered(*expect) != "100-continue")
    return HttpRefusal{
        417, fmt::format("Expect '{}': only '100-continue' is understood", printable(*expect, 100))};
  return {};
}

bool is_json(std::string_view content_type) {
  std::string type = lowered(content_type.substr(0, content_type.find(';')));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.pop_back();
  if (type == "application/json") return true;
  return type.starts_with("application/") && type.ends_with("+json");
}

std::string serialise_head(const HttpResponse& response, Framing framing, bool keep_alive,
                           const std::string& request_id) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason_phrase(response.status));
  append_header(out, "Date", date_now());
  append_header(out, "Server", "soli");
  if (!request_id.empty()) append_header(out, "X-Request-Id", request_id);
  for (const HttpHeader& header : response.headers) append_header(out, header.name, header.value);
  const bool has_no_body = response.status == 204 || response.status == 304;
  if (framing == Framing::kLength && !has_no_body)
    append_header(out, "Content-Length", std::to_string(response.body.size()));
  if (framing == Framing::kChunked) append_header(out, "Transfer-Encoding", "chunked");
  append_header(out, "Connection", keep_alive ? "keep-alive" : "close");
  return out + "\r\n";
}

std::string as_chunk(std::string_view bytes) {
  SOLI_CHECK(!bytes.empty(), "an empty chunk ends the body");
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Other";
  }
}

}  // namespace soli::serve
