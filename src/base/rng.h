#pragma once

#include <cstdint>

namespace soli {

/// SplitMix64 (Steele, Lea, Flood 2014): the n-th number of a seed, without state. Equal on every machine.
constexpr uint64_t hash_u64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// A seeded stream of numbers (SplitMix64). Small, copyable, and the same on every machine; not for secrets.
class Rng {
 public:
  explicit constexpr Rng(uint64_t seed) : state_(seed) {}

  constexpr uint64_t next_u64() {
    const uint64_t value = hash_u64(state_);
    state_ += 0x9e3779b97f4a7c15ULL;
    return value;
  }

  /// Uniform in [0, 1), 53 bits.
  constexpr double next_unit() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }

  /// Uniform in [0, bound); bound > 0. The bias is below bound / 2^64.
  constexpr uint64_t next_below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next_u64()) * bound) >> 64);
  }

 private:
  uint64_t state_;
};

}  // namespace soli
