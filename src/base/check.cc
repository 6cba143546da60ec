#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace soli {

void check_failed(const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "soli: internal error at %s:%d: %s\n", file, line, message.c_str());
  std::abort();
}

}  // namespace soli
