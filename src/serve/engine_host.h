#pragma once

#include <atomic>
#include <thread>

#include "engine/engine.h"

namespace soli::serve {

/// The thread that steps an engine.
class EngineHost {
 public:
  /// `engine` is borrowed. Nobody else steps it until stop() has returned.
  explicit EngineHost(Engine& engine);
  EngineHost(const EngineHost&) = delete;
  EngineHost& operator=(const EngineHost&) = delete;
  ~EngineHost() { stop(); }

  /// Cancels what is left, and ends after the step at work.
  void stop();

 private:
  void work();

  Engine& engine_;
  std::atomic<bool> stopped_ = false;
  std::thread thread_;
};

}  // namespace soli::serve
