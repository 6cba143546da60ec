#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/eval_measure.h"
#include "cli/eval_report.h"

namespace soli::cli {

/// What is done to an expert.
enum class DissectMode {
  kWithout,  // it is never chosen: the next best takes its place
  kOnly,     // no other one is chosen, and it has the whole weight
};

/// One expert of a layer, or the experts of this number in all layers that have some.
struct DissectTarget {
  std::optional<int64_t> layer;
  int32_t expert = 0;
};

/// Every expert: of each layer (those without experts left out), or of all layers together.
std::vector<DissectTarget> dissect_targets(const ModelSpec& spec, bool over_all_layers);

/// `base` with the target left out, or with nothing but the target, in its layers. `n_experts` per layer.
RoutingPolicy dissecting_policy(const RoutingPolicy& base, const ModelSpec& spec, const DissectTarget& target,
                                DissectMode mode);

/// How much worse a text becomes, from the same windows before and after: a difference of means over paired
/// windows, so that what makes windows differ from one another has no part in its error.
struct LossChange {
  int64_t n_tokens = 0;
  int64_t n_windows = 0;
  double nats_per_token = 0;    // after minus before
  std::optional<double> error;  // standard error; absent for fewer than two windows
};

/// Windows that only one of the two has done do not count.
LossChange loss_change(const std::vector<WindowLoss>& before, const std::vector<WindowLoss>& after);

struct LossInterval {
  double low = 0;
  double high = 0;
};

/// Where the change lies so that all of `n_comparisons` such intervals hold together with 95 % confidence:
/// Student's t over the windows, and Bonferroni's correction. Absent where the change has no error.
std::optional<LossInterval> interval_of(const LossChange& change, int64_t n_comparisons);

/// What one expert means to one domain.
struct DissectCell {
  int64_t n_calls = 0;  // as the model routes
  LossChange change = {};
};

struct DissectedExpert {
  DissectTarget target;
  std::vector<DissectCell> domains = {};  // as in Dissection::exact; fewer where it was interrupted
};

/// What became of every domain without every expert, or with it alone.
struct Dissection {
  DissectMode mode = DissectMode::kWithout;
  bool over_all_layers = false;
  double tolerance = 0;  // nats per token
  std::vector<OfDomain<EvalResult>> exact = {};
  std::vector<DissectedExpert> experts = {};
  bool complete = true;

  int64_t n_cells() const { return static_cast<int64_t>(exact.size() * experts.size()); }
  /// Indices of the experts whose removal hurts the domain for certain, worst first; of kWithout.
  std::vector<size_t> needed_by(size_t domain) const;
  /// Indices of the experts whose removal costs no domain more than the tolerance, for certain; of kWithout,
  /// where it is complete.
  std::vector<size_t> missed_by_nobody() const;
  /// All indices, the least loss first; of the domain's.
  std::vector<size_t> by_change(size_t domain) const;
};

}  // namespace soli::cli
