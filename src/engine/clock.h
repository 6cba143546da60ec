#pragma once

#include <chrono>
#include <functional>

namespace soli {

/// The engine's time. Tests put a clock of their own in its place.
using EngineTime = std::chrono::steady_clock::time_point;
using EngineClock = std::function<EngineTime()>;

inline double seconds_between(EngineTime begin, EngineTime end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace soli
