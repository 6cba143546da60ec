#pragma once

#include <string_view>

#include "base/result.h"

namespace soli::serve {

/// Tells systemd how this service stands ("READY=1", "STOPPING=1", "STATUS=..."), by the protocol of
/// sd_notify(3): one datagram to the socket that NOTIFY_SOCKET names. Nothing to do where it is not set.
/// Fails with kIo.
Status notify_service_manager(std::string_view state);

}  // namespace soli::serve
