#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"

namespace soli {

/// The memory promise of a process: every big allocation is charged here by name ("weights", "expert slots",
/// "kv pages", "activations"). Thread-safe. Outlives its charges.
class Budget {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  explicit Budget(int64_t limit_bytes = kUnlimited) : limit_bytes_(limit_bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  /// Reserves `bytes` under `name`, or fails with kLimit: what was asked, what is used by name, the limit.
  Status charge(const std::string& name, int64_t bytes);
  void release(const std::string& name, int64_t bytes);

  int64_t limit_bytes() const { return limit_bytes_; }
  int64_t used_bytes() const;
  int64_t peak_bytes() const;
  std::map<std::string, int64_t> used_by_name() const;

 private:
  const int64_t limit_bytes_;
  mutable std::mutex mutex_;
  int64_t used_bytes_ = 0;
  int64_t peak_bytes_ = 0;
  std::map<std::string, int64_t> by_name_;
};

}  // namespace soli
