#pragma once

// The figures of the dashboard as docs/dashboard.md shows them. Pure functions; callers hold what guards the
// history. `layers` are the numbers among all layers of those with experts.

#include <cstdint>
#include <vector>

#include "observe/heat_alarms.h"
#include "observe/heat_history.h"
#include "serve/dashboard/window_figures.h"
#include "serve/openai/json_text.h"

namespace soli::serve {

/// What an answer may show of experts.
struct HeatView {
  const HeatHistory& history;
  const HeatAlarms* alarms;  // null: there are none
  const std::vector<int64_t>& layers;
};

openai::Json heat_json(const HeatView& view, size_t tier, int64_t from_ms, int64_t to_ms);
openai::Json experts_json(const HeatView& view);
openai::Json alarms_json(const HeatView& view);

struct SeriesQuery {
  size_t tier = 0;
  int64_t since_ms = 0;
  bool by_layer = false;
  bool has_cache = false;  // experts may be on the disk
};
openai::Json series_json(const HeatView& view, const WindowFigureCounter& counter, const SeriesQuery& query);

/// "tiers" of the state.
openai::Json tiers_json(const HeatHistory& history);

}  // namespace soli::serve
