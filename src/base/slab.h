#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/budget.h"
#include "base/result.h"

namespace soli {

/// Zeroed anonymous memory, 2 MiB aligned, huge pages asked for, charged to a Budget for as long as it lives.
/// Pages become resident when first touched. Move-only.
class Slab {
 public:
  static Result<Slab> allocate(Budget& budget, std::string name, int64_t bytes);
  /// What allocate() charges for so many bytes: whole pages.
  static int64_t charged_bytes(int64_t bytes);

  Slab() = default;
  Slab(Slab&& other) noexcept { swap(other); }
  Slab& operator=(Slab&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Slab();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void swap(Slab& other) noexcept;

  Budget* budget_ = nullptr;
  std::string name_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace soli
