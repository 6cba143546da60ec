#include "serve/dashboard/state_json.h"

#include "model/policy_text.h"
#include "serve/openai/endpoints.h"

namespace soli::serve {
namespace {

using openai::Json;

Json model_json(const openai::ServedModel& model) {
  return {{"id", model.id},
          {"architecture", model.spec->architecture},
          {"layers", model.spec->n_layers},
          {"vocab_size", model.spec->vocab_size},
          {"context_length", model.context_length},
          {"parameters", model.parameters->nominal_total.parameters},
          {"weight_bytes", model.parameters->nominal_total.bytes}};
}

Json engine_json(const ModelFigures& figures) {
  const EngineCounters& engine = figures.engine;
  return {{"running", engine.n_running},
          {"paused", engine.n_paused},
          {"waiting", engine.n_waiting},
          {"max_running", figures.max_running},
          {"kv_pages_in_use", engine.kv_pages_in_use},
          {"kv_pages_max", figures.max_kv_pages}};
}

Json alarm_limits_json(const HeatAlarms* alarms) {
  if (alarms == nullptr) return nullptr;
  return {{"raise_factor", alarms->raise_factor()},
          {"clear_factor", alarms->clear_factor()},
          {"min_calls", alarms->min_calls()},
          {"open", alarms->n_open()},
          {"raised", alarms->n_raised()}};
}

}  // namespace

Json state_json(const StateFigures& state, const HeatView& view) {
  const openai::ServedModel& model = state.model;
  const ModelFigures& figures = state.model_figures;
  return {{"version", 1},
          {"started", state.started_ms},
          {"model", model_json(model)},
          {"experts", openai::expert_shape_json(model)},
          {"exact", model.exact},
          {"policy", policy_json(model.policy)},
          {"allow_policy", model.allow_policy.keys()},
          {"tiers", tiers_json(view.history)},
          {"half_life_seconds", view.history.options().half_life_seconds},
          {"alarms", alarm_limits_json(view.alarms)},
          {"requests", state.requests},
          {"engine", engine_json(figures)},
          {"memory", {{"parts", figures.memory}, {"limit_bytes", figures.memory_limit_bytes}}},
          {"expert_slots", figures.cache ? Json(figures.n_expert_slots) : Json()}};
}

}  // namespace soli::serve
