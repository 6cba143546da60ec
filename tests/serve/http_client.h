#pragma once

// A client that says exactly what a test wants to be said, over a real socket.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace soli::serve {

inline std::string get(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

class TestClient {
 public:
  static constexpr int kPatience_ms = 10'000;

  /// `receive_bytes`: how much the kernel takes for this client before it is read; 0: the usual.
  explicit TestClient(int64_t port, int receive_bytes = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    struct sockaddr_in place = {};
    place.sin_family = AF_INET;
    place.sin_port = htons(static_cast<uint16_t>(port));
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const struct sockaddr*>(&place), sizeof(place)), 0);
  }
  TestClient(TestClient&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;
  ~TestClient() { leave(); }

  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return;  // the server hung up: what it said can be read
      text.remove_prefix(static_cast<size_t>(n));
    }
  }

  /// What comes until there are `n` bytes, the end, or too long a silence.
  std::string read(size_t n) {
    std::string text;
    while (text.size() < n) {
      const std::string more = read_some(n - text.size());
      if (more.empty()) break;
      text += more;
    }
    return text;
  }
  std::string read_to_end() { return read(SIZE_MAX); }
  std::string read_until(std::string_view mark) {
    std::string text;
    while (!text.ends_with(mark)) {
      const std::string more = read_some(1);
      if (more.empty()) break;
      text += more;
    }
    return text;
  }
  /// One answer with Content-Length: head and body.
  std::string read_answer() {
    std::string text = read_until("\r\n\r\n");
    const size_t place = text.find("Content-Length: ");
    if (place == std::string::npos) return text;
    return text + read(std::stoul(text.substr(place + 16)));
  }

  /// Whether the server closes it within that time.
  bool is_closed_within(int milliseconds) {
    struct pollfd place = {.fd = socket_, .events = POLLIN, .revents = 0};
    char byte = 0;
    return ::poll(&place, 1, milliseconds) > 0 && ::recv(socket_, &byte, 1, MSG_PEEK) <= 0;
  }

  void leave() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  /// Leaves with RST.
  void break_off() {
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    leave();
  }

 private:
  std::string read_some(size_t most) {
    struct pollfd place = {.fd = socket_, .events = POLLIN, .revents = 0};
    if (::poll(&place, 1, kPatience_ms) <= 0) return "";
    char bytes[16 << 10];
    const ssize_t n = ::recv(socket_, bytes, std::min(most, sizeof(bytes)), 0);
    return n > 0 ? std::string(bytes, static_cast<size_t>(n)) : "";
  }

  int socket_;
};

/// "HTTP/1.1 200 OK" to 200.
inline int status_of(const std::string& answer) {
  return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3));
}

inline std::string body_of(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

}  // namespace soli::serve
