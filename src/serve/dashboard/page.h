#pragma once

#include <cstddef>

#include "serve/http.h"

namespace soli::serve {

// Written by cmake/embed_file.cmake, from the page's one file.
extern const unsigned char kPageBytes[];
extern const size_t kPageSize;
extern const char* const kPageScripts;  // " 'sha256-...'" for each inline script

/// The page, which holds no data; 304 where the client has it. It may run its own scripts and no others, and
/// talk to this server only.
HttpResponse page_response(const HttpRequest& request);

}  // namespace soli::serve
