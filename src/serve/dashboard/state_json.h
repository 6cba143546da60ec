#pragma once

#include <cstdint>

#include "serve/dashboard/heat_json.h"
#include "serve/metrics.h"
#include "serve/openai/json_text.h"
#include "serve/openai/served_model.h"

namespace soli::serve {

/// What the state tells beside the history.
struct StateFigures {
  const openai::ServedModel& model;
  int64_t started_ms = 0;
  ModelFigures model_figures = {};
  openai::Json requests = {};
};

openai::Json state_json(const StateFigures& state, const HeatView& view);

}  // namespace soli::serve
