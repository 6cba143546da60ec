#pragma once

#include <cstdint>

namespace soli {

/// The least multiple of `grain` that is at least `n`. Both positive, or n = 0.
constexpr int64_t round_up(int64_t n, int64_t grain) { return (n + grain - 1) / grain * grain; }

}  // namespace soli
