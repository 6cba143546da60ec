#pragma once

#include <functional>
#include <string>

#include "engine/engine.h"
#include "ops/expert_meter.h"
#include "serve/metrics.h"
#include "serve/openai/served_model.h"

namespace soli::serve {

/// What runs the requests. Borrowed; lives until no request is left.
struct ModelBackend {
  Engine* engine = nullptr;
  const openai::ServedModel* model = nullptr;
  std::function<ModelFigures()> figures;  // any thread
  std::string path = {};                  // of the model's file, for the log
  const ExpertMeter* meter = nullptr;     // counts the calls of experts, for the dashboard; null: nobody does
};

}  // namespace soli::serve
