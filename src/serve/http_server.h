#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/http.h"

namespace soli::serve {

struct HttpServerOptions {
  std::string host = "127.0.0.1";  // a name or an address; all addresses that a name has are bound
  int64_t port = 0;                // 0: one that is free
  int64_t n_threads = 1;           // that carry connections
  HttpLimits limits = {};
  std::vector<std::string> allowed_hosts = {};  // further names that requests may use; see HostPolicy
};

/// Fails with kIo where no address has that name. Binds nothing.
Status check_host(const std::string& host);

/// What the transport has counted. Connections that are open now, and totals.
struct HttpCounters {
  int64_t connections = 0;
  int64_t connections_accepted = 0;
  int64_t connections_refused = 0;  // beyond the limit
  int64_t bodies_bytes = 0;         // held now
};

/// An HTTP/1.1 server: keep-alive, pipelining, bodies by length or chunked, answers whole or as they are
/// made. Every connection lives on one of the server's threads. All limits are those of HttpLimits.
/// Thread-safe.
class HttpServer {
 public:
  static constexpr int64_t kMaxThreads = 16;

  /// Binds and begins to answer. `handler` is borrowed and must live until stop() has returned. Fails with
  /// kIo (the address is taken, or not of this machine) or kInvalidArgument.
  static Result<std::unique_ptr<HttpServer>> start(const HttpServerOptions& options, HttpHandler& handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  /// "127.0.0.1:8080", "[::1]:8080": where it listens.
  const std::vector<std::string>& addresses() const;
  int64_t port() const;

  /// Closes connections that wait for a request; the others close after their answer. New connections are
  /// still answered, one request each, by what the handler says.
  void drain();
  /// Ends the answers that are under way: a source says its last words, who waits for an answer gets the
  /// handler's farewell(). What a client does not read stays unsaid when stop() is called.
  void cut_off();
  /// Closes everything and ends the threads. Sources are destroyed, abandoned requests hear of it.
  void stop();

  HttpCounters counters() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace soli::serve
