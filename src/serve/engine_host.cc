#include "serve/engine_host.h"

namespace soli::serve {

EngineHost::EngineHost(Engine& engine) : engine_(engine), thread_([this] { work(); }) {}

void EngineHost::stop() {
  if (!thread_.joinable()) return;
  engine_.cancel_all();
  stopped_ = true;
  engine_.wake();
  thread_.join();
}

void EngineHost::work() {
  while (!stopped_) {
    if (!engine_.step()) engine_.wait_for_work(Wakeup::kLongestWait);
  }
  engine_.step();  // tells those who were cancelled
}

}  // namespace soli::serve
