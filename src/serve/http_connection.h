#pragma once

// The inside of the transport: only http_connection.cc and http_server.cc include this, since Asio and Beast
// take long to compile.

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <memory>
#include <optional>

#include "serve/http_rules.h"
#include "serve/reply_slot.h"

namespace soli::serve {

namespace asio = boost::asio;
namespace beast = boost::beast;

/// An operation gives its error beside its result, and throws nothing.
inline constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

/// "127.0.0.1:8080", "[::1]:8080".
std::string address_of(const asio::ip::tcp::endpoint& endpoint);

/// What all connections of a server share.
struct HttpShared {
  HttpShared(const HttpLimits& all_limits, HostPolicy policy, HttpHandler& its_handler)
      : limits(all_limits), hosts(std::move(policy)), handler(its_handler) {}

  const HttpLimits limits;
  const HostPolicy hosts;
  HttpHandler& handler;
  std::atomic<bool> draining = false;
  std::atomic<bool> cutting = false;  // no answer goes on
  std::atomic<int64_t> connections = 0;
  std::atomic<int64_t> accepted = 0;
  std::atomic<int64_t> refused = 0;
  std::atomic<int64_t> bodies_bytes = 0;
  std::atomic<uint64_t> next_id = 0;
  std::string id_prefix;  // differs from run to run
};

/// One client. Lives on its IoThread; kept alive by its coroutine.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// `is_surplus`: beyond the limit; it hears 503 and is closed.
  Connection(asio::ip::tcp::socket socket, std::shared_ptr<IoThread> io, std::shared_ptr<HttpShared> shared,
             bool is_surplus);
  ~Connection();

  void start();
  /// Closes it unless a request is being read or answered.
  void close_if_idle();
  void close();
  void wake();

 private:
  using Clock = std::chrono::steady_clock;
  using Parser = beast::http::request_parser<beast::http::buffer_body>;
  template <typename T>
  using Awaitable = asio::awaitable<T>;

  Awaitable<void> run();
  Awaitable<void> refuse_surplus();
  /// One request and its answer. Whether the connection lives on.
  Awaitable<bool> exchange();
  Awaitable<bool> wait_for_request();
  Awaitable<std::optional<HttpRefusal>> read_head(HttpRequest& request);
  Awaitable<std::optional<HttpRefusal>> read_body(HttpRequest& request);
  std::optional<HttpRefusal> keep_body(HttpRequest& request, std::string_view bytes);
  HttpRefusal refusal_of(const beast::error_code& error) const;
  void fill_request(HttpRequest& request);
  Awaitable<std::optional<HttpResponse>> wait_for_answer(HttpRequest request);
  Awaitable<bool> write_answer(HttpResponse response);
  Awaitable<bool> write_source(BodySource& source, bool chunked, const std::string& keep_alive_bytes);
  Awaitable<bool> write_last_words(BodySource& source, bool chunked);
  Awaitable<bool> write(std::string bytes);
  Awaitable<bool> refuse(HttpRefusal refusal);
  Awaitable<void> linger();
  Awaitable<void> wait_for_wake(Clock::time_point until);

  void begin_record();
  void end_record();
  void set_deadline(std::chrono::milliseconds time);
  void clear_deadline();
  void watch_client();
  void stop_watching();
  void look_at_client(uint64_t watch);
  bool client_has_left();

  const std::shared_ptr<IoThread> io_;
  const std::shared_ptr<HttpShared> shared_;
  const bool is_surplus_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer deadline_;
  asio::steady_timer event_;
  asio::steady_timer watch_timer_;
  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::string peer_;

  HttpRecord record_;
  Clock::time_point began_;
  Clock::duration writing_{};
  bool keeps_alive_ = true;
  bool wants_body_ = true;  // of the answer: not for HEAD
  int minor_version_ = 1;

  uint64_t n_deadlines_ = 0;  // tells a stale timer from the present one
  uint64_t n_watches_ = 0;
  bool idle_ = false;
  bool woken_ = false;
  bool left_ = false;  // the client
  bool timed_out_ = false;
  bool lingers_ = false;  // after its last answer
  bool closed_ = false;
};

}  // namespace soli::serve
