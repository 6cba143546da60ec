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
  /// Addresses for up to `most_bytes`, of which resize() makes more or fewer usable. Charges nothing yet.
  static Result<Slab> reserve(Budget& budget, std::string name, int64_t most_bytes);
  /// What allocate() and resize() charge for so many bytes: whole pages.
  static int64_t charged_bytes(int64_t bytes) { return charged_bytes(bytes, bytes); }
  static int64_t charged_bytes(int64_t reserved_bytes, int64_t bytes);

  Slab() = default;
  Slab(Slab&& other) noexcept { swap(other); }
  Slab& operator=(Slab&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Slab();

  /// Charges what is more, or gives back what is less: the memory beyond `bytes` is zero again. Fails with
  /// kLimit (budget), and then changes nothing. At most what was reserved.
  Status resize(int64_t bytes);

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void swap(Slab& other) noexcept;

  Budget* budget_ = nullptr;
  std::string name_;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;         // charged
  int64_t mapped_bytes_ = 0;  // at least those
};

}  // namespace soli
