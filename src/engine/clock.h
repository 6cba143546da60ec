#pragma once

#include <chrono>
#include <functional>

namespace soli {

/// The engine's time. Tests put a clock of their own in its place.
using EngineTime = std::chrono::steady_clock::time_point;
using EngineClock = std::function<EngineTime()>;

}  // namespace soli
