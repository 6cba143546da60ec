#pragma once

// What a routing profile comes to [O3]: figures per domain and layer, verdicts and drift. The formulas are in
// docs/profiling.md.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "observe/expert_clusters.h"
#include "observe/expert_shares.h"
#include "observe/profile_resampling.h"
#include "observe/routing_profile.h"

namespace soli {

enum class Verdict { kBalanced, kBiased, kRandom };
const char* name_of(Verdict verdict);

/// Below which p-value a figure does not fit what permutations give.
inline constexpr double kSignificantP = 0.01;

/// Biased above either limit; random where information and stability, as far as there are such figures, fit
/// what a permutation of the tokens gives; else balanced.
Verdict verdict_of(double variation, double never_called, const std::optional<PermutationTest>& information,
                   const std::optional<PermutationTest>& stability);

struct BatchFigures {
  int64_t batch_tokens = 0;
  int64_t n_batches = 0;
  double distinct_experts = 0;  // mean
  double expected_union = 0;
  double sharing_gain = 0;  // expected / distinct
};

struct PositionFigures {
  int64_t first_position = 0;
  int64_t n_tokens = 0;
  double mean_k = 0;
  double effective_experts = 0;
  double gate_entropy_bits = 0;
};

/// An expert that a domain calls far more often than the others do.
struct Specialist {
  int64_t expert = 0;
  std::string domain;
  double lift = 0;               // its share in the domain / its share in all
  double excess_deviations = 0;  // of its calls there, above what a permutation of the tokens gives
};
inline constexpr double kSpecialistLift = 1.5;
inline constexpr double kSpecialistDeviations = 6;

/// Of one domain or all, in one layer; or over layers: means of the layers' figures, but sums of calls,
/// distinct and expected experts, and the extremes of shares.
struct RoutingFigures {
  int64_t layer = -1;  // among all layers; -1: over layers
  int64_t n_tokens = 0;
  int64_t n_calls = 0;
  double mean_k = 0;
  double k_deviation = 0;
  double effective_experts = 0;
  double effective_deviation = 0;
  double gate_entropy_bits = 0;
  double gate_entropy_deviation = 0;
  double routing_entropy_bits = 0;
  double routing_entropy_normalised = 0;
  int64_t hottest_layer = -1, hottest_expert = 0;
  double hottest_share = 0;
  int64_t coldest_layer = -1, coldest_expert = 0;
  double coldest_share = 0;
  double variation = 0;
  double max_over_mean = 0;
  double never_called = 0;
  int64_t distinct_experts = 0;
  std::optional<double> stability;
  std::optional<double> top1_change_rate;
  std::optional<double> margin;
  std::optional<double> information_bits;  // of all domains: mutual information; of one: its part
  std::vector<BatchFigures> batches;
  std::vector<PositionFigures> positions;
  ResampledFigures resampled;
  Verdict verdict = Verdict::kBalanced;
  /// Whether the limits of "biased" lie outside of both intervals.
  bool is_certain = false;
  std::optional<double> drift_bits;         // Jensen-Shannon divergence from the saved profile
  std::optional<double> drift_chance_bits;  // what that would come to by chance

  // Of one layer only.
  std::vector<int64_t> calls;                  // [experts]
  std::vector<int64_t> never_experts;          // without a call
  std::vector<ExpertPair> pairs;               // of the largest lift, at most kPairs
  std::vector<std::vector<int64_t>> clusters;  // expert_clusters() of all pairs
  std::vector<Specialist> specialists;

  static constexpr size_t kPairs = 8;
  /// A pair counts where independent choice would give so many tokens.
  static constexpr double kLeastExpected = 5;
};

struct TargetReport {
  std::string name;
  int64_t n_windows = 0;
  int64_t n_sampled_tokens = 0;
  RoutingFigures total = {};
  std::vector<RoutingFigures> layers = {};
};

struct ProfileReport {
  std::string model;
  int64_t n_experts = 0;
  int64_t experts_per_token = 0;
  int64_t window = 0;
  uint64_t seed = 0;
  std::vector<TargetReport> domains;
  TargetReport all;
  std::string against;  // what drift is measured from, or ""
};

/// What the command line says about a report.
struct ProfileSource {
  std::string model_file;
  std::string data;
  std::string policy = "{}";  // JSON, as docs/steering.md writes it
  bool is_complete = true;    // else the run was stopped, or ran out of time
};

/// Fails with kInvalidArgument where drift from a saved profile makes no sense, since it is of other layers
/// or experts.
Status check_comparable(const ProfileShape& saved, const ProfileShape& shape);

/// `saved` may be null, and is comparable.
ProfileReport make_profile_report(const RoutingProfile& profile, const RoutingProfile* saved, uint64_t seed);

nlohmann::ordered_json to_json(const ProfileReport& report, const ProfileSource& source);

/// One HTML page that needs nothing else: verdict, heat maps, curves and tables, with to_json() within. The
/// same report makes the same bytes.
std::string render_html(const ProfileReport& report, const ProfileSource& source);

/// Tables for a terminal of 120 columns: domains, verdicts and, where asked for, each layer.
std::string render_text(const ProfileReport& report, bool with_layers);

/// One line per domain and layer, and those over domains ("all") and over layers (""), after one with names.
std::string to_csv(const ProfileReport& report);

}  // namespace soli
