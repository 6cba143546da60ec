#include "serve/http_server.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <future>
#include <random>
#include <thread>

#include "base/log.h"
#include "base/utf8.h"
#include "serve/http_connection.h"

namespace soli::serve {
namespace {

using asio::ip::tcp;

constexpr int kBacklog = 1024;
// What the kernel holds for a client that does not read. Beyond, its row pauses.
constexpr int kSendBufferBytes = 64 << 10;
constexpr int64_t kMaxSurplus =
    64;  // connections beyond the limit that are told so; others are closed unheard
constexpr std::chrono::milliseconds kAcceptPause{50};

std::string new_id_prefix() {
  std::random_device device;
  return fmt::format("req-{:08x}", device());
}

void set_up(tcp::socket& socket) {
  boost::system::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes), ignored);
}

/// All addresses that a name has.
Result<tcp::resolver::results_type> resolve(asio::io_context& context, const std::string& host,
                                            int64_t port) {
  constexpr const char* kAllowed = "a name or an address of this machine";
  if (!is_host(host)) return fail(ErrorKind::kInvalidArgument, "--host '{}': {}", printable(host), kAllowed);
  tcp::resolver resolver(context);
  boost::system::error_code error;
  auto found = resolver.resolve(host, std::to_string(port),
                                tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) return fail(ErrorKind::kIo, "--host {}: {}; {}", host, error.message(), kAllowed);
  return found;
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const HttpServerOptions& options, HttpHandler& handler) : options_(options), handler_(handler) {}
  ~Impl() { stop(); }

  Status bind();
  void start_threads();
  void drain();
  void cut_off();
  void stop();

  const std::vector<std::string>& addresses() const { return addresses_; }
  int64_t port() const { return port_; }
  HttpCounters counters() const;

 private:
  Status bind_one(const tcp::endpoint& endpoint);
  asio::awaitable<void> accept_all(tcp::acceptor& acceptor);
  void admit(tcp::socket socket, const std::shared_ptr<IoThread>& io);
  void on_every_thread(const std::function<void(IoThread&)>& task);
  void on_every_connection(void (Connection::*task)());

  const HttpServerOptions options_;
  HttpHandler& handler_;
  std::shared_ptr<HttpShared> shared_;
  std::vector<std::shared_ptr<IoThread>> ios_;
  std::vector<asio::executor_work_guard<asio::io_context::executor_type>> guards_;
  std::vector<std::thread> threads_;
  std::vector<tcp::acceptor> acceptors_;  // on the first thread
  std::vector<std::string> addresses_;
  int64_t port_ = 0;
  size_t next_io_ = 0;
  bool stopped_ = false;
};

Status HttpServer::Impl::bind() {
  for (int64_t i = 0; i < options_.n_threads; ++i) {
    ios_.push_back(std::make_shared<IoThread>());
    guards_.emplace_back(ios_.back()->context.get_executor());
  }
  port_ = options_.port;
  SOLI_ASSIGN_OR_RETURN(const auto found, resolve(ios_.front()->context, options_.host, options_.port));
  HostPolicy policy;
  policy.names = options_.allowed_hosts;
  policy.any = options_.allowed_hosts.empty();
  for (const auto& entry : found) {
    const bool is_known =
        std::any_of(acceptors_.begin(), acceptors_.end(), [&](const tcp::acceptor& acceptor) {
          return acceptor.local_endpoint().address() == entry.endpoint().address();
        });
    if (is_known) continue;
    if (entry.endpoint().address().is_loopback()) policy.any = false;
    SOLI_RETURN_IF_ERROR(bind_one(entry.endpoint()));
  }
  policy.names.push_back(options_.host);
  for (std::string& name : policy.names) {
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  shared_ = std::make_shared<HttpShared>(options_.limits, std::move(policy), handler_);
  shared_->id_prefix = new_id_prefix();
  return {};
}

Status HttpServer::Impl::bind_one(const tcp::endpoint& wanted) {
  const tcp::endpoint endpoint(wanted.address(), static_cast<unsigned short>(port_));
  tcp::acceptor acceptor(ios_.front()->context);
  boost::system::error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  // "::" takes IPv4 too.
  if (!error && endpoint.address().is_v6())
    acceptor.set_option(asio::ip::v6_only(!endpoint.address().is_unspecified()), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kBacklog, error);
  if (error) return fail(ErrorKind::kIo, "cannot listen on {}: {}", address_of(endpoint), error.message());
  port_ = acceptor.local_endpoint().port();
  addresses_.push_back(address_of(acceptor.local_endpoint()));
  acceptors_.push_back(std::move(acceptor));
  return {};
}

void HttpServer::Impl::start_threads() {
  for (tcp::acceptor& acceptor : acceptors_)
    asio::co_spawn(ios_.front()->context, accept_all(acceptor), asio::detached);
  for (const std::shared_ptr<IoThread>& io : ios_) {
    threads_.emplace_back([io] { io->context.run(); });
  }
}

asio::awaitable<void> HttpServer::Impl::accept_all(tcp::acceptor& acceptor) {
  asio::steady_timer pause(ios_.front()->context);
  while (acceptor.is_open()) {
    const std::shared_ptr<IoThread> io = ios_[next_io_++ % ios_.size()];
    auto [error, socket] = co_await acceptor.async_accept(io->context, kAwait);
    if (!error) {
      admit(std::move(socket), io);
      continue;
    }
    if (!acceptor.is_open()) co_return;
    // No descriptor is free, or the client has gone already.
    if (error != asio::error::connection_aborted) spdlog::warn("accept: {}", error.message());
    pause.expires_after(kAcceptPause);
    const auto [ignored] = co_await pause.async_wait(kAwait);
    (void)ignored;
  }
}

void HttpServer::Impl::admit(tcp::socket socket, const std::shared_ptr<IoThread>& io) {
  const int64_t n = shared_->connections.fetch_add(1) + 1;
  const int64_t n_surplus = n - shared_->limits.max_connections;
  (n_surplus > 0 ? shared_->refused : shared_->accepted).fetch_add(1);
  if (n_surplus > kMaxSurplus) {
    shared_->connections.fetch_sub(1);
    return;
  }
  set_up(socket);
  asio::post(io->context,
             [socket = std::move(socket), io, shared = shared_, is_surplus = n_surplus > 0]() mutable {
               std::make_shared<Connection>(std::move(socket), io, std::move(shared), is_surplus)->start();
             });
}

/// Runs `task` on each of the threads and waits for all.
void HttpServer::Impl::on_every_thread(const std::function<void(IoThread&)>& task) {
  std::vector<std::future<void>> done;
  for (const std::shared_ptr<IoThread>& io : ios_) {
    auto promise = std::make_shared<std::promise<void>>();
    done.push_back(promise->get_future());
    asio::post(io->context, [io, promise, &task] {
      task(*io);
      promise->set_value();
    });
  }
  for (std::future<void>& one : done) one.wait();
}

void HttpServer::Impl::on_every_connection(void (Connection::*task)()) {
  on_every_thread([task](IoThread& io) {
    const std::vector<Connection*> connections(io.connections.begin(), io.connections.end());
    for (Connection* connection : connections) (connection->*task)();
  });
}

void HttpServer::Impl::drain() {
  shared_->draining = true;
  on_every_connection(&Connection::close_if_idle);
}

void HttpServer::Impl::cut_off() {
  shared_->draining = true;
  shared_->cutting = true;
  on_every_connection(&Connection::wake);
}

void HttpServer::Impl::stop() {
  if (stopped_) return;
  stopped_ = true;
  if (!threads_.empty()) {
    shared_->draining = true;
    on_every_thread([this](IoThread& io) {
      boost::system::error_code ignored;
      if (&io == ios_.front().get()) {
        for (tcp::acceptor& acceptor : acceptors_) acceptor.close(ignored);
      }
    });
    on_every_connection(&Connection::close);
  }
  guards_.clear();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

HttpCounters HttpServer::Impl::counters() const {
  return {.connections = shared_->connections,
          .connections_accepted = shared_->accepted,
          .connections_refused = shared_->refused,
          .bodies_bytes = shared_->bodies_bytes};
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::start(const HttpServerOptions& options,
                                                      HttpHandler& handler) {
  if (options.n_threads < 1 || options.n_threads > kMaxThreads) {
    return fail(ErrorKind::kInvalidArgument, "{} threads for connections are not allowed; 1 to {}",
                options.n_threads, kMaxThreads);
  }
  auto impl = std::make_unique<Impl>(options, handler);
  SOLI_RETURN_IF_ERROR(impl->bind());
  impl->start_threads();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

Status check_host(const std::string& host) {
  asio::io_context context;
  const auto found = resolve(context, host, 0);
  return found ? Status() : Status(tl::unexpected(found.error()));
}

const std::vector<std::string>& HttpServer::addresses() const { return impl_->addresses(); }
int64_t HttpServer::port() const { return impl_->port(); }
void HttpServer::drain() { impl_->drain(); }
void HttpServer::cut_off() { impl_->cut_off(); }
void HttpServer::stop() { impl_->stop(); }
HttpCounters HttpServer::counters() const { return impl_->counters(); }

}  // namespace soli::serve
