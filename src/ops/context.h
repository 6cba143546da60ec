#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/thread_team.h"
#include "kernels/kernel_table.h"

namespace soli {

/// How activations enter a multiplication.
enum class ActivationPrecision {
  kF32,  // weights dequantised, f32 arithmetic: the reference
  kQ8,   // 8-bit activations and integer dots with quantised weights, bfloat16 ones with BF16 weights
};

/// Memory that an op needs for the time of one call. Grows to the largest demand and stays: no allocation per
/// step. Belongs to one engine; not thread-safe.
class Scratch {
 public:
  /// Uninitialised room for n objects of T, valid until the next call of take on this Scratch.
  template <typename T>
  T* take(int64_t n) {
    static_assert(alignof(T) <= 64 && std::is_trivially_copyable_v<T>);
    return static_cast<T*>(take_bytes(n * static_cast<int64_t>(sizeof(T))));
  }

 private:
  struct FreeAligned {
    void operator()(void* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  void* take_bytes(int64_t bytes) {
    if (bytes > capacity_) {
      memory_.reset();
      memory_.reset(::operator new (static_cast<size_t>(bytes), std::align_val_t{64}));
      capacity_ = bytes;
    }
    return memory_.get();
  }
  std::unique_ptr<void, FreeAligned> memory_;
  int64_t capacity_ = 0;
};

/// What every op needs beside its operands.
struct OpContext {
  ThreadTeam& team;
  const kernels::KernelTable& kernels;
  ActivationPrecision activations = ActivationPrecision::kF32;
  Scratch scratch = {};
  Scratch work_list = {};  // what a phase is cut into, while `scratch` holds its operands
  Scratch shared = {};     // operands that several phases of a layer meet
  Scratch rows = {};       // which rows a phase concerns
};

/// Rows of `cols` elements that are worth another thread, where a row costs a pass over its elements.
inline int64_t rows_per_range(int64_t cols) {
  constexpr int64_t kElementsPerRange = 16384;
  return std::max<int64_t>(1, kElementsPerRange / std::max<int64_t>(1, cols));
}

}  // namespace soli
