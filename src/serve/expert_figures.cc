#include "serve/expert_figures.h"

namespace soli::serve {

Result<std::unique_ptr<ExpertFigures>> ExpertFigures::create(const ModelSpec& spec, ExpertMetrics metrics,
                                                             bool measured) {
  if (!spec.is_moe() || (metrics == ExpertMetrics::kNone && !measured)) return nullptr;
  const int64_t n_experts = spec.router.n_experts;
  const bool by_layer = metrics == ExpertMetrics::kLayers;
  const int64_t n_series = by_layer ? spec.n_moe_layers() * n_experts : n_experts;
  if (metrics != ExpertMetrics::kNone && n_series > kMaxSeries) {
    return fail(ErrorKind::kLimit, "{} experts{} are {} series of each metric; {} are allowed ({})",
                n_experts, by_layer ? fmt::format(" in each of {} layers", spec.n_moe_layers()) : "",
                n_series, kMaxSeries,
                by_layer && n_experts <= kMaxSeries ? "'experts' sums over the layers" : "'none' has none");
  }
  return std::unique_ptr<ExpertFigures>(new ExpertFigures(spec, metrics));
}

ExpertFigures::ExpertFigures(const ModelSpec& spec, ExpertMetrics metrics)
    : shown_(metrics != ExpertMetrics::kNone), meter_(spec.n_layers, spec.router.n_experts) {
  if (metrics != ExpertMetrics::kLayers) return;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (spec.is_moe_layer(layer)) layers_.push_back(layer);
  }
}

std::vector<ExpertFigure> ExpertFigures::read() const {
  std::vector<ExpertFigure> figures;
  if (!shown_) return figures;
  for (const int64_t layer : layers_) {
    for (int64_t e = 0; e < meter_.n_experts(); ++e) figures.push_back({layer, e, meter_.read(layer, e)});
  }
  if (!layers_.empty()) return figures;
  for (int64_t e = 0; e < meter_.n_experts(); ++e)
    figures.push_back({std::nullopt, e, meter_.read_over_layers(e)});
  return figures;
}

}  // namespace soli::serve
