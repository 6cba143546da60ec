#include "serve/http_connection.h"

#include <fmt/format.h>
#include <poll.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include "base/log.h"
#include "base/utf8.h"

namespace soli::serve {
namespace {

namespace http = beast::http;
using asio::ip::tcp;

constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kMaxBufferBytes = 64 << 10;  // holds a whole head, and what is pipelined behind it
constexpr size_t kWriteBytes = 16 << 10;      // pieces of a source are gathered up to here
constexpr std::chrono::milliseconds kWatchGap{200};
constexpr std::chrono::milliseconds kDrainIdleTime{1'000};  // for the request of a connection that came late
constexpr std::chrono::milliseconds kLingerTime{2'000};
constexpr int64_t kMaxLingerBytes = 1 << 20;

bool is_http_error(const beast::error_code& error) {
  return error.category() == beast::error_code(http::error::bad_target).category();
}

double seconds_of(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

std::string address_of(const tcp::endpoint& endpoint) {
  const std::string address = endpoint.address().to_string();
  return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                    : fmt::format("{}:{}", address, endpoint.port());
}

Connection::Connection(tcp::socket socket, std::shared_ptr<IoThread> io, std::shared_ptr<HttpShared> shared,
                       bool is_surplus)
    : io_(std::move(io)),
      shared_(std::move(shared)),
      is_surplus_(is_surplus),
      socket_(std::move(socket)),
      deadline_(io_->context),
      event_(io_->context),
      watch_timer_(io_->context),
      buffer_(kMaxBufferBytes) {
  io_->connections.insert(this);
}

Connection::~Connection() {
  io_->connections.erase(this);
  shared_->connections.fetch_sub(1);
}

void Connection::start() {
  beast::error_code error;
  const tcp::endpoint peer = socket_.remote_endpoint(error);
  if (!error) peer_ = address_of(peer);
  asio::co_spawn(
      io_->context, [self = shared_from_this()] { return self->run(); },
      [self = shared_from_this()](const std::exception_ptr& exception) {
        self->close();
        if (!exception) return;
        try {
          std::rethrow_exception(exception);
        } catch (const std::exception& what) {
          spdlog::error("connection {}: {}", self->peer_, what.what());
        }
      });
}

void Connection::close_if_idle() {
  if (idle_) close();
}

void Connection::close() {
  closed_ = true;
  clear_deadline();
  stop_watching();
  beast::error_code ignored;
  socket_.close(ignored);
  wake();
}

void Connection::wake() {
  woken_ = true;
  event_.cancel();
}

asio::awaitable<void> Connection::run() {
  bool lives_on = !is_surplus_;
  if (is_surplus_) co_await refuse_surplus();
  while (lives_on && !closed_) lives_on = co_await exchange();
  if (lingers_ && !closed_) co_await linger();
}

asio::awaitable<void> Connection::refuse_surplus() {
  HttpResponse response = shared_->handler.refusal(503, "too many connections; try again");
  response.headers.push_back({"Retry-After", "1"});
  const std::string head = serialise_head(response, Framing::kLength, false, "");
  lingers_ = co_await write(head + response.body);
}

asio::awaitable<bool> Connection::exchange() {
  const bool arrived = co_await wait_for_request();
  if (!arrived) co_return false;
  begin_record();
  HttpRequest request;
  std::optional<HttpRefusal> refusal = co_await read_head(request);
  if (closed_) co_return false;
  std::optional<HttpResponse> response;
  if (!refusal) {
    response = shared_->handler.on_head(request);
    record_.context = request.context;
  }
  if (!refusal && !response) {
    refusal = co_await read_body(request);
    record_.bytes_in = static_cast<int64_t>(request.body.size());
  }
  if (closed_ || left_) {
    end_record();
    co_return false;
  }
  bool lives_on = false;
  if (refusal) {
    lives_on = co_await refuse(*std::move(refusal));
  } else if (response) {
    // What is left of the request would be read as the next one.
    if (!parser_->is_done()) keeps_alive_ = false;
    lives_on = co_await write_answer(*std::move(response));
  } else {
    response = co_await wait_for_answer(std::move(request));
    if (response) lives_on = co_await write_answer(*std::move(response));
  }
  end_record();
  co_return lives_on;
}

/// Holds no buffer while it waits, so that idle connections cost little.
asio::awaitable<bool> Connection::wait_for_request() {
  parser_.reset();
  if (buffer_.size() > 0) co_return true;
  buffer_.shrink_to_fit();
  record_ = {};
  idle_ = true;
  set_deadline(shared_->draining ? std::min(kDrainIdleTime, shared_->limits.idle_time)
                                 : shared_->limits.idle_time);
  const auto [error] = co_await socket_.async_wait(tcp::socket::wait_read, kAwait);
  clear_deadline();
  idle_ = false;
  co_return !error && !closed_;
}

void Connection::begin_record() {
  record_ = {};
  record_.peer = peer_;
  began_ = Clock::now();
  writing_ = {};
  wants_body_ = true;
  keeps_alive_ = true;
  minor_version_ = 1;
}

void Connection::end_record() {
  record_.seconds = seconds_of(Clock::now() - began_);
  record_.write_seconds = seconds_of(writing_);
  record_.abandoned = record_.abandoned || left_;
  record_.cut_off = record_.cut_off || (closed_ && !record_.abandoned);
  shared_->handler.on_done(record_);
  record_.context.reset();
}

asio::awaitable<std::optional<HttpRefusal>> Connection::read_head(HttpRequest& request) {
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(shared_->limits.max_header_bytes));
  parser_->body_limit(boost::none);  // counted in keep_body
  set_deadline(shared_->limits.header_time);
  const auto [error, n_bytes] = co_await http::async_read_header(socket_, buffer_, *parser_, kAwait);
  clear_deadline();
  (void)n_bytes;
  const bool is_cut = error == http::error::end_of_stream || error == http::error::partial_message;
  if (is_cut || (error && !timed_out_ && !is_http_error(error))) {
    closed_ = true;  // the client left without a request
    co_return std::nullopt;
  }
  record_.id = fmt::format("{}{:08x}", shared_->id_prefix, shared_->next_id.fetch_add(1));
  if (error) co_return refusal_of(error);
  fill_request(request);
  const std::string target(parser_->get().target());
  if (static_cast<int64_t>(target.size()) > shared_->limits.max_target_bytes) {
    co_return HttpRefusal{414, fmt::format("a target of {} bytes; {} are allowed", target.size(),
                                           shared_->limits.max_target_bytes)};
  }
  std::optional<HttpRefusal> refusal = check_head(request, shared_->limits);
  if (!refusal) refusal = take_target(target, shared_->hosts, request);
  record_.path = request.path;
  const auto length = parser_->content_length();
  if (!refusal && length && *length > static_cast<uint64_t>(shared_->limits.max_body_bytes)) {
    refusal = HttpRefusal{
        413, fmt::format("a body of {} bytes; {} are allowed", *length, shared_->limits.max_body_bytes)};
  }
  co_return refusal;
}

HttpRefusal Connection::refusal_of(const beast::error_code& error) const {
  if (timed_out_) return {408, "the request did not arrive in time"};
  if (error == http::error::header_limit) {
    const bool has_target = !parser_->get().target().empty();
    if (!has_target) return {414, fmt::format("a target above {} bytes", shared_->limits.max_target_bytes)};
    return {431, fmt::format("header fields above {} bytes", shared_->limits.max_header_bytes)};
  }
  if (error == http::error::bad_version) return {505, "HTTP/1.0 and HTTP/1.1 are understood"};
  return {400, fmt::format("the request breaks HTTP/1.1: {}", error.message())};
}

void Connection::fill_request(HttpRequest& request) {
  const auto& message = parser_->get();
  request.method = std::string(message.method_string());
  request.minor_version = message.version() % 10 == 0 ? 0 : 1;
  for (const auto& field : message) {
    HttpHeader header{std::string(field.name_string()), std::string(field.value())};
    for (char& c : header.name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    request.headers.push_back(std::move(header));
  }
  request.peer = peer_;
  request.id = record_.id;
  record_.method = request.method;
  minor_version_ = request.minor_version;
  wants_body_ = request.method != "HEAD";
  keeps_alive_ = message.keep_alive();
}

asio::awaitable<std::optional<HttpRefusal>> Connection::read_body(HttpRequest& request) {
  if (parser_->is_done()) co_return std::nullopt;
  if (request.minor_version >= 1 && request.find_header("expect") != nullptr && buffer_.size() == 0) {
    const bool written = co_await write("HTTP/1.1 100 Continue\r\n\r\n");
    if (!written) {
      left_ = true;
      co_return std::nullopt;
    }
  }
  std::vector<char> chunk(kReadBytes);
  set_deadline(shared_->limits.body_time);
  std::optional<HttpRefusal> refusal;
  while (!parser_->is_done() && !refusal) {
    parser_->get().body().data = chunk.data();
    parser_->get().body().size = chunk.size();
    auto [error, n_bytes] = co_await http::async_read_some(socket_, buffer_, *parser_, kAwait);
    (void)n_bytes;
    if (error == http::error::need_buffer) error = {};
    const size_t n_read = chunk.size() - parser_->get().body().size;
    refusal = keep_body(request, std::string_view(chunk.data(), n_read));
    if (error && !refusal) {
      left_ = error == http::error::partial_message || (!is_http_error(error) && !timed_out_);
      refusal = refusal_of(error);
    }
  }
  clear_deadline();
  co_return refusal;
}

/// Counts the bytes for this request and for all.
std::optional<HttpRefusal> Connection::keep_body(HttpRequest& request, std::string_view bytes) {
  const auto n = static_cast<int64_t>(bytes.size());
  if (n == 0) return {};
  const HttpLimits& limits = shared_->limits;
  if (static_cast<int64_t>(request.body.size()) + n > limits.max_body_bytes)
    return HttpRefusal{413, fmt::format("a body above {} bytes", limits.max_body_bytes)};
  struct Lease {
    explicit Lease(std::shared_ptr<HttpShared> owner) : shared(std::move(owner)) {}
    ~Lease() { shared->bodies_bytes.fetch_sub(n_bytes); }
    std::shared_ptr<HttpShared> shared;
    int64_t n_bytes = 0;
  };
  if (request.body_lease == nullptr) request.body_lease = std::make_shared<Lease>(shared_);
  static_cast<Lease*>(request.body_lease.get())->n_bytes += n;
  if (shared_->bodies_bytes.fetch_add(n) + n > limits.max_bodies_bytes)
    return HttpRefusal{503, "too many requests are being read; try again"};
  request.body.append(bytes);
  return {};
}

asio::awaitable<std::optional<HttpResponse>> Connection::wait_for_answer(HttpRequest request) {
  const auto slot = std::make_shared<ReplySlot>(io_, weak_from_this());
  watch_client();
  const Clock::time_point until = Clock::now() + shared_->limits.request_time;
  shared_->handler.on_request(std::move(request), make_responder(slot));
  std::optional<HttpResponse> response = slot->take();
  while (!response && !left_ && !closed_ && !shared_->cutting && Clock::now() < until) {
    co_await wait_for_wake(until);
    response = slot->take();
  }
  if (response && response->status == kNoAnswer)
    co_return shared_->handler.refusal(500, "the request was dropped");
  if (response) co_return response;
  slot->abandon();
  if (left_ || closed_) co_return std::nullopt;
  keeps_alive_ = false;
  if (shared_->cutting) {
    record_.cut_off = true;
    co_return shared_->handler.farewell();
  }
  co_return shared_->handler.refusal(504, "the request took longer than this server allows");
}

asio::awaitable<void> Connection::wait_for_wake(Clock::time_point until) {
  if (!woken_) {
    event_.expires_at(until);
    const auto [error] = co_await event_.async_wait(kAwait);
    (void)error;
  }
  woken_ = false;
}

asio::awaitable<bool> Connection::write_answer(HttpResponse response) {
  record_.status = response.status;
  if (response.close || shared_->draining) keeps_alive_ = false;
  Framing framing = Framing::kLength;
  if (response.source != nullptr) framing = minor_version_ == 0 ? Framing::kClose : Framing::kChunked;
  if (framing == Framing::kClose) keeps_alive_ = false;
  std::string head = serialise_head(response, framing, keeps_alive_, record_.id);
  if (wants_body_ && response.source == nullptr) head += response.body;
  if (response.source != nullptr) watch_client();
  bool written = co_await write(std::move(head));
  if (written && response.source != nullptr && wants_body_) {
    const auto slot = std::make_shared<ReplySlot>(io_, weak_from_this());
    response.source->start([slot] { slot->wake(); });
    written =
        co_await write_source(*response.source, framing == Framing::kChunked, response.keep_alive_bytes);
  }
  response.source.reset();
  stop_watching();
  if (!written) {
    record_.abandoned = left_ || !(closed_ || record_.cut_off);
    co_return false;
  }
  lingers_ = !keeps_alive_;
  co_return keeps_alive_;
}

asio::awaitable<bool> Connection::write_source(BodySource& source, bool chunked,
                                               const std::string& keep_alive_bytes) {
  bool is_last = false;
  while (!is_last) {
    if (shared_->cutting) co_return co_await write_last_words(source, chunked);
    std::string bytes;
    while (!is_last && bytes.size() < kWriteBytes) {
      std::optional<BodySource::Piece> piece = source.next();
      if (!piece) break;
      bytes += piece->bytes;
      is_last = piece->is_last;
    }
    if (bytes.empty() && !is_last) {
      const Clock::time_point until = Clock::now() + shared_->limits.keep_alive_time;
      co_await wait_for_wake(until);
      if (left_ || closed_) co_return false;
      if (Clock::now() < until || keep_alive_bytes.empty()) continue;
      bytes = keep_alive_bytes;
    }
    if (chunked && !bytes.empty()) bytes = as_chunk(bytes);
    if (chunked && is_last) bytes += kLastChunk;
    const bool written = co_await write(std::move(bytes));
    if (!written || left_) co_return false;
  }
  co_return true;
}

asio::awaitable<bool> Connection::write_last_words(BodySource& source, bool chunked) {
  record_.cut_off = true;
  keeps_alive_ = false;
  std::string bytes = source.last_words();
  if (bytes.empty()) co_return false;
  if (chunked) bytes = as_chunk(bytes) + std::string(kLastChunk);
  co_return co_await write(std::move(bytes));
}

/// A client has write_time to take some of it, then again.
asio::awaitable<bool> Connection::write(std::string bytes) {
  const Clock::time_point begin = Clock::now();
  size_t n_done = 0;
  bool ok = !closed_;
  while (ok && n_done < bytes.size()) {
    set_deadline(shared_->limits.write_time);
    const auto [error, n] =
        co_await socket_.async_write_some(asio::buffer(bytes.data() + n_done, bytes.size() - n_done), kAwait);
    n_done += n;
    ok = !error;
  }
  clear_deadline();
  record_.bytes_out += static_cast<int64_t>(n_done);
  writing_ += Clock::now() - begin;
  co_return ok;
}

asio::awaitable<bool> Connection::refuse(HttpRefusal refusal) {
  HttpResponse response = shared_->handler.refusal(refusal.status, refusal.message);
  if (refusal.status == 503) response.headers.push_back({"Retry-After", "1"});
  response.close = true;
  timed_out_ = false;
  co_return co_await write_answer(std::move(response));
}

/// A client that still sends would lose the answer to a reset: what it sends is read and dropped for a while.
asio::awaitable<void> Connection::linger() {
  beast::error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  std::vector<char> dropped(kReadBytes);
  set_deadline(kLingerTime);
  for (int64_t n_dropped = 0; n_dropped < kMaxLingerBytes;) {
    const auto [error, n] = co_await socket_.async_read_some(asio::buffer(dropped), kAwait);
    if (error) break;
    n_dropped += static_cast<int64_t>(n);
  }
  clear_deadline();
}

/// When the time is over, everything that waits on the socket ends.
void Connection::set_deadline(std::chrono::milliseconds time) {
  timed_out_ = false;
  deadline_.expires_after(time);
  deadline_.async_wait([self = weak_from_this(), number = ++n_deadlines_](const beast::error_code& error) {
    const auto alive = self.lock();
    if (error || alive == nullptr || alive->n_deadlines_ != number) return;
    alive->timed_out_ = true;
    beast::error_code ignored;
    alive->socket_.cancel(ignored);
  });
}

void Connection::clear_deadline() {
  ++n_deadlines_;
  deadline_.cancel();
}

void Connection::watch_client() {
  socket_.async_wait(tcp::socket::wait_read,
                     [self = weak_from_this(), watch = ++n_watches_](const beast::error_code& error) {
                       const auto alive = self.lock();
                       if (alive != nullptr && !error) alive->look_at_client(watch);
                     });
}

void Connection::stop_watching() {
  ++n_watches_;
  watch_timer_.cancel();
  beast::error_code ignored;
  if (socket_.is_open()) socket_.cancel(ignored);
}

/// Something can be read: the end of the connection, or the next request, which can wait.
void Connection::look_at_client(uint64_t watch) {
  if (watch != n_watches_) return;
  if (client_has_left()) {
    left_ = true;
    beast::error_code ignored;
    socket_.cancel(ignored);
    wake();
    return;
  }
  watch_timer_.expires_after(kWatchGap);
  watch_timer_.async_wait([self = weak_from_this(), watch](const beast::error_code& error) {
    const auto alive = self.lock();
    if (alive != nullptr && !error) alive->look_at_client(watch);
  });
}

bool Connection::client_has_left() {
  struct pollfd place = {.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
  if (::poll(&place, 1, 0) < 0) return false;
  return (place.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

}  // namespace soli::serve
