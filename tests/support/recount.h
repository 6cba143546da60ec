#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

namespace soli {

/// The exit status of tests/observe/recount.py on a routing JSON file: 0 when its report equals the recount.
inline int recount(const std::string& path) {
  const std::string command = "python3 " SOLI_TEST_DATA "/observe/recount.py '" + path + "'";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace soli
