#pragma once

// What passes between the HTTP transport and those who answer. Nothing here knows of sockets.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace soli::serve {

struct HttpHeader {
  std::string name;  // of a request: in lower case
  std::string value;
};

/// What a handler remembers of one request, from its head to the record of its end.
class HttpContext {
 public:
  virtual ~HttpContext() = default;
};

struct HttpRequest {
  std::string method;
  std::string path;   // as sent: never decoded, without the query
  std::string query;  // what follows '?', as sent
  int minor_version = 1;
  std::vector<HttpHeader> headers = {};
  std::string body = {};
  std::string peer = {};  // address:port
  std::string id = {};    // made by the server, unique in its life
  std::shared_ptr<HttpContext> context = {};
  std::shared_ptr<void> body_lease = {};  // the bytes of the body count while this lives

  /// Value of the first field of that name (lower case), or null.
  const std::string* find_header(std::string_view name) const;
};

/// A body that is made while it is sent. Everything is called on the thread of its connection and must not
/// block. It is destroyed when all of it is written, or as soon as the client has left.
class BodySource {
 public:
  virtual ~BodySource() = default;

  /// `wake` is to be called, from any thread, when next() may have something again.
  virtual void start(std::function<void()> wake) = 0;

  struct Piece {
    std::string bytes;
    bool is_last = false;
  };
  /// The next piece, or nothing while there is none. Not called before the last one is written, so that a
  /// client that does not read stops what feeds the source.
  virtual std::optional<Piece> next() = 0;

  /// What a client is told where the server ends before the body does, as the end of it; "": nothing, and the
  /// body stays without an end. Called at most once, and next() no more.
  virtual std::string last_words() { return {}; }
};

struct HttpResponse {
  int status = 200;
  std::vector<HttpHeader> headers = {};
  std::string body = {};
  std::unique_ptr<BodySource> source = {};  // instead of a body
  /// What is written where a source has been silent for long, so that nobody on the way gives up; or "".
  std::string keep_alive_bytes = {};
  bool close = false;  // the connection, after this answer
};

/// The way back to one client. Thread-safe. One that goes without an answer has answered with status 500.
class Responder {
 public:
  virtual ~Responder() = default;

  /// Once; what follows is dropped.
  virtual void respond(HttpResponse response) = 0;
  /// The client left, or the time for its request is over.
  virtual bool is_abandoned() const = 0;
  /// `callback` runs when that happens, on the thread of the connection; at once if it has happened.
  virtual void set_on_abandoned(std::function<void()> callback) = 0;
  /// Runs `task` on the thread of the connection, on which it must not block.
  virtual void post(std::function<void()> task) = 0;
};

/// How one request went, told when its answer is written or its client has left.
struct HttpRecord {
  std::string id = {};
  std::string peer = {};
  std::string method = {};  // "" where the head could not be read
  std::string path = {};
  int status = 0;
  int64_t bytes_in = 0;   // of the body
  int64_t bytes_out = 0;  // with the head
  double seconds = 0;     // from the first byte of the head
  double write_seconds = 0;
  bool abandoned = false;  // the client left, or did not read
  bool cut_off = false;    // the server ended before the answer did
  std::shared_ptr<HttpContext> context = {};
};

/// Who answers. Called on the threads of the transport, from several at once, and must not block.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  /// Judges a request by its head, before the body is read. An answer refuses it. May set request.context.
  virtual std::optional<HttpResponse> on_head(HttpRequest& request) = 0;
  /// The answer may be given at once or later, from any thread.
  virtual void on_request(HttpRequest request, std::shared_ptr<Responder> responder) = 0;
  /// The answer to what never becomes a request: a head that breaks the rules, a limit, a timeout.
  virtual HttpResponse refusal(int status, const std::string& message) = 0;
  /// The answer to a request that was taken, where the server ends before there is another.
  virtual HttpResponse farewell() = 0;
  virtual void on_done(const HttpRecord& record) = 0;
};

struct HttpLimits {
  int64_t max_connections = 2048;
  int64_t max_header_bytes = 16 << 10;  // with the request line
  int64_t max_header_fields = 100;
  int64_t max_target_bytes = 4 << 10;
  int64_t max_body_bytes = 8 << 20;
  int64_t max_bodies_bytes = 64 << 20;  // of all requests that are being read or translated
  std::chrono::milliseconds header_time{10'000};
  std::chrono::milliseconds body_time{60'000};
  std::chrono::milliseconds idle_time{75'000};        // between two requests
  std::chrono::milliseconds write_time{30'000};       // in which a client must read something
  std::chrono::milliseconds request_time{3'600'000};  // until the answer begins
  std::chrono::milliseconds keep_alive_time{15'000};  // after which a silent stream says that it lives
};

}  // namespace soli::serve
