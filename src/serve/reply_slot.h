#pragma once

// Inside of the transport; includes Asio.

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "serve/http.h"

namespace soli::serve {

namespace asio = boost::asio;

class Connection;

/// One thread with its connections, which nobody else touches.
struct IoThread {
  asio::io_context context{1};
  std::unordered_set<Connection*> connections;
};

/// Where an answer is laid down for its connection. Shared by the connection and the responder.
class ReplySlot {
 public:
  ReplySlot(std::shared_ptr<IoThread> io, std::weak_ptr<Connection> connection)
      : io_(std::move(io)), connection_(std::move(connection)) {}

  void put(HttpResponse response);
  std::optional<HttpResponse> take();
  void abandon();
  bool is_abandoned() const;
  void set_on_abandoned(std::function<void()> callback);
  void post(std::function<void()> task);
  /// Has the connection look again.
  void wake();

 private:
  const std::shared_ptr<IoThread> io_;
  const std::weak_ptr<Connection> connection_;
  mutable std::mutex mutex_;
  std::optional<HttpResponse> response_;
  std::function<void()> on_abandoned_;
  bool answered_ = false;
  bool abandoned_ = false;
};

/// The slot's side of a handler.
std::shared_ptr<Responder> make_responder(std::shared_ptr<ReplySlot> slot);
/// Status of the response that a slot holds where its responder went without one.
inline constexpr int kNoAnswer = 0;

}  // namespace soli::serve
