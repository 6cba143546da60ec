#include "base/budget.h"

#include <algorithm>

#include "base/check.h"
#include "base/units.h"

namespace soli {

Status Budget::charge(const std::string& name, int64_t bytes) {
  SOLI_CHECK(bytes >= 0);
  const std::lock_guard lock(mutex_);
  if (bytes > limit_bytes_ - used_bytes_) {
    std::string used;
    for (const auto& [part, part_bytes] : by_name_)
      used += fmt::format("{} {}, ", part, format_bytes(part_bytes));
    return fail(ErrorKind::kLimit, "memory budget of {} is too small: {} needs {} more ({}in all {} needed)",
                format_bytes(limit_bytes_), name, format_bytes(bytes), used,
                format_bytes(used_bytes_ + bytes));
  }
  used_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  by_name_[name] += bytes;
  return {};
}

void Budget::release(const std::string& name, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto part = by_name_.find(name);
  SOLI_CHECK(part != by_name_.end() && part->second >= bytes, "{} releases more than it holds", name);
  part->second -= bytes;
  used_bytes_ -= bytes;
}

int64_t Budget::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

int64_t Budget::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_bytes_;
}

std::map<std::string, int64_t> Budget::used_by_name() const {
  const std::lock_guard lock(mutex_);
  return by_name_;
}

}  // namespace soli
