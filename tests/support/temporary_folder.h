#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/check.h"

namespace soli {

/// An empty folder that lives as long as the test.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "soli_test_XXXXXX").string()) {
    SOLI_CHECK(::mkdtemp(path_.data()) != nullptr, "{}", path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  /// The path of a file in it.
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

}  // namespace soli
