#pragma once

#include <cstring>
#include <string_view>

#include "base/check.h"
#include "format/gguf_parse.h"

namespace soli {

/// A file that lies in memory.
class MemorySource : public ByteSource {
 public:
  /// Borrows `bytes`.
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}

  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  Status read(int64_t offset, std::span<std::byte> out) const override {
    SOLI_CHECK(offset >= 0 && out.size() <= bytes_.size() &&
                   static_cast<size_t>(offset) <= bytes_.size() - out.size(),
               "{} bytes at {}", out.size(), offset);
    std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  std::string_view bytes_;
};

}  // namespace soli
