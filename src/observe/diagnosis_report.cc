#include "observe/diagnosis_report.h"

#include <algorithm>

namespace soli {

int64_t DiagnosisReport::segment_of(int64_t position) const {
  return std::count_if(changes.begin(), changes.end(),
                       [position](const ChangePoint& change) { return change.at <= position; });
}

std::optional<int32_t> DiagnosisReport::leading_expert(int64_t position, int64_t layer) const {
  std::optional<int32_t> leading;
  float most = 0;
  for (const FfnCall& call : tokens.calls_of(tokens.path(position, layer))) {
    if (call.kind != FfnKind::kRouted || (leading && !(call.weight > most))) continue;
    leading = call.expert;
    most = call.weight;
  }
  return leading;
}

std::vector<LeadingExpert> leading_experts(const DiagnosisReport& report, int64_t layer) {
  std::map<int32_t, int64_t> counts;
  for (int64_t position = 0; position < report.tokens.n_tokens(); ++position) {
    if (const auto expert = report.leading_expert(position, layer)) ++counts[*expert];
  }
  std::vector<LeadingExpert> leading;
  for (const auto& [expert, n] : counts) leading.push_back({expert, n});
  std::stable_sort(leading.begin(), leading.end(),
                   [](const auto& a, const auto& b) { return a.n_tokens > b.n_tokens; });
  return leading;
}

}  // namespace soli
