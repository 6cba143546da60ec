#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/csv.h"
#include "base/utf8.h"
#include "observe/profile_report.h"

namespace soli {
namespace {

constexpr int64_t kShownBatch = 64;  // tokens, of the column of sharing gains
constexpr size_t kNameColumns = 24;

std::string shown(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string shown(const std::optional<Interval>& interval, double factor, int digits) {
  if (!interval) return "";
  return fmt::format("{:.{}f} to {:.{}f}", factor * interval->low, digits, factor * interval->high, digits);
}

std::string shown_p(const std::optional<PermutationTest>& test) {
  return test ? fmt::format("{:.3f}", test->p) : "-";
}

std::string name_of(const TargetReport& target) { return printable(target.name, kNameColumns); }

/// "3:17 0.250": layer, expert, share.
std::string expert(int64_t layer, int64_t number, double share) {
  return fmt::format("{}:{} {:.3f}", layer, number, share);
}

std::string shown_gain(const RoutingFigures& figures) {
  for (const BatchFigures& batch : figures.batches) {
    if (batch.batch_tokens == kShownBatch) return fmt::format("{:.2f}", batch.sharing_gain);
  }
  return "-";
}

class Tables {
 public:
  explicit Tables(const ProfileReport& report) : report_(report) {
    for (const TargetReport& domain : report.domains) width_ = std::max(width_, name_of(domain).size());
  }

  std::string text(bool with_layers) {
    print("{}: {} layers with {} experts, {} per token; windows of {} positions\n\n",
          printable(report_.model), report_.all.layers.size(), report_.n_experts, report_.experts_per_token,
          report_.window);
    figures_head("domain");
    for (const TargetReport& target : targets()) figures_line(name_of(target), target.total);
    text_ += '\n';
    verdict_head("domain");
    for (const TargetReport& target : targets()) verdict_line(name_of(target), target.total);
    if (with_layers) layers();
    legend();
    return text_;
  }

 private:
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  std::vector<TargetReport> targets() const {
    std::vector<TargetReport> targets = report_.domains;
    targets.push_back(report_.all);
    return targets;
  }

  void layers() {
    for (const TargetReport& target : targets()) {
      print("\n{}\n", name_of(target));
      figures_head("layer");
      for (const RoutingFigures& layer : target.layers) figures_line(fmt::to_string(layer.layer), layer);
      verdict_head("layer");
      for (const RoutingFigures& layer : target.layers) verdict_line(fmt::to_string(layer.layer), layer);
    }
  }

  void figures_head(const char* what) {
    print("{:<{}} {:>8} {:>5} {:>6} {:>6} {:>7} {:>6} {:>7} {:<15} {:<15} {:>6} {:>6} {:>6} {:>5}\n", what,
          width_, "tokens", "k", "eff.k", "gate H", "route H", "CV", "never,%", " hottest", "coldest",
          "stable", "top-1", "margin", "gain");
  }
  void figures_line(const std::string& name, const RoutingFigures& f) {
    print(
        "{:<{}} {:>8} {:>5.2f} {:>6.2f} {:>6.2f} {:>7.3f} {:>6.3f} {:>7.1f}  {:<14} {:<15} {:>6} {:>6} {:>6} "
        "{:>5}\n",
        name, width_, f.n_tokens, f.mean_k, f.effective_experts, f.gate_entropy_bits,
        f.routing_entropy_normalised, f.variation, 100 * f.never_called,
        expert(f.hottest_layer, f.hottest_expert, f.hottest_share),
        expert(f.coldest_layer, f.coldest_expert, f.coldest_share), shown(f.stability, 3),
        shown(f.top1_change_rate, 3), shown(f.margin, 2), shown_gain(f));
  }

  void verdict_head(const char* what) {
    print("{:<{}} {:<10} {:<16} {:<15} {:>9} {:>9} {:>6} {:>9} {:>6}", what, width_, "verdict", "CV, 95 %",
          "never,%, 95 %", "info,bits", "permuted", "p", "permuted", "p");
    print("{}\n", report_.against.empty() ? "" : fmt::format(" {:>9} {:>8}", "drift", "chance"));
  }
  void verdict_line(const std::string& name, const RoutingFigures& f) {
    const auto permuted = [](const std::optional<PermutationTest>& test) {
      return test ? shown(test->permuted, 4) : std::string("-");
    };
    print("{:<{}} {:<10} {:<16} {:<15} {:>9} {:>9} {:>6} {:>9} {:>6}", name, width_,
          fmt::format("{}{}", soli::name_of(f.verdict), f.is_certain ? "" : " ?"),
          shown(f.resampled.variation, 1, 3), shown(f.resampled.never_called, 100, 1),
          shown(f.information_bits, 4), permuted(f.resampled.information), shown_p(f.resampled.information),
          permuted(f.resampled.stability), shown_p(f.resampled.stability));
    if (!report_.against.empty())
      print(" {:>9} {:>8}", shown(f.drift_bits, 5), shown(f.drift_chance_bits, 5));
    text_ += '\n';
  }

  void legend() {
    print(
        "\nk: experts per token, eff.k: effective ones; gate H: entropy of a token's router distribution, "
        "bits; "
        "route H: of the\nshares of the experts, of its maximum; CV: variation of the shares; never: experts "
        "without "
        "a call; stable: Jaccard overlap\nof consecutive tokens; top-1: how often the first expert changes; "
        "margin: "
        "between the k-th and the next logit; gain:\nexpected / actual distinct experts of {} consecutive "
        "tokens. "
        "Over layers: means; of shares the extremes, as layer:expert.\n'?': a limit of \"biased\" (CV {}, "
        "never {:.0f} "
        "%) lies within its interval. Permuted, p: information and stability of {}\npermutations of the "
        "tokens.\n",
        kShownBatch, kBiasedVariation, 100 * kBiasedNeverCalled, kProfileReplicates);
  }

  const ProfileReport& report_;
  size_t width_ = 6;
  std::string text_;
};

std::string csv_optional(const std::optional<double>& value) {
  return value ? fmt::format("{}", *value) : "";
}

std::string csv_line(const std::string& domain, const RoutingFigures& f) {
  const ResampledFigures& r = f.resampled;
  const auto low = [](const std::optional<Interval>& interval) {
    return interval ? fmt::format("{}", interval->low) : "";
  };
  const auto high = [](const std::optional<Interval>& interval) {
    return interval ? fmt::format("{}", interval->high) : "";
  };
  const auto p = [](const std::optional<PermutationTest>& test) {
    return test ? fmt::format("{}", test->p) : "";
  };
  std::string line = fmt::format("{},{},{},{},{},{},{},{},{},", csv_field(domain),
                                 f.layer < 0 ? "" : fmt::to_string(f.layer), f.n_tokens, f.n_calls, f.mean_k,
                                 f.effective_experts, f.gate_entropy_bits, f.routing_entropy_bits,
                                 f.routing_entropy_normalised);
  line += fmt::format("{},{},{},{},{},{},", f.hottest_layer, f.hottest_expert, f.hottest_share,
                      f.coldest_layer, f.coldest_expert, f.coldest_share);
  line += fmt::format("{},{},{},{},{},{},{},", f.variation, low(r.variation), high(r.variation),
                      f.max_over_mean, f.never_called, low(r.never_called), high(r.never_called));
  line += fmt::format("{},{},{},{},{},", f.distinct_experts, csv_optional(f.stability), p(r.stability),
                      csv_optional(f.top1_change_rate), csv_optional(f.margin));
  return line + fmt::format("{},{},{},{},{}\n", csv_optional(f.information_bits), p(r.information),
                            name_of(f.verdict), csv_optional(f.drift_bits),
                            csv_optional(f.drift_chance_bits));
}

}  // namespace

std::string render_text(const ProfileReport& report, bool with_layers) {
  return Tables(report).text(with_layers);
}

std::string to_csv(const ProfileReport& report) {
  std::string csv =
      "domain,layer,tokens,calls,mean_k,effective_experts,gate_entropy_bits,routing_entropy_bits,"
      "routing_entropy_normalised,hottest_layer,hottest_expert,hottest_share,coldest_layer,coldest_expert,"
      "coldest_share,share_variation,share_variation_low,share_variation_high,share_max_over_mean,never_"
      "called,"
      "never_called_low,never_called_high,distinct_experts,stability,stability_p,top1_change_rate,margin,"
      "information_bits,information_p,verdict,drift_bits,drift_chance_bits\n";
  std::vector<const TargetReport*> targets;
  for (const TargetReport& domain : report.domains) targets.push_back(&domain);
  targets.push_back(&report.all);
  for (const TargetReport* target : targets) {
    for (const RoutingFigures& layer : target->layers) csv += csv_line(target->name, layer);
    csv += csv_line(target->name, target->total);
  }
  return csv;
}

}  // namespace soli
