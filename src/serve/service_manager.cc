#include "serve/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace soli::serve {

Status notify_service_manager(std::string_view state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || *path == 0) return {};
  struct sockaddr_un place = {};
  place.sun_family = AF_UNIX;
  const size_t length = std::strlen(path);
  if ((path[0] != '/' && path[0] != '@') || length >= sizeof(place.sun_path))
    return fail(ErrorKind::kIo, "NOTIFY_SOCKET '{}': neither a path nor an abstract name", path);
  std::memcpy(place.sun_path, path, length);
  if (path[0] == '@') place.sun_path[0] = 0;  // an abstract name begins with a zero byte
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return fail(ErrorKind::kIo, "NOTIFY_SOCKET: {}", std::strerror(errno));
  const auto size = static_cast<socklen_t>(offsetof(struct sockaddr_un, sun_path) + length);
  const ssize_t n = ::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                             reinterpret_cast<const struct sockaddr*>(&place), size);
  const int error = errno;
  ::close(socket);
  if (n < 0) return fail(ErrorKind::kIo, "NOTIFY_SOCKET '{}': {}", path, std::strerror(error));
  return {};
}

}  // namespace soli::serve
