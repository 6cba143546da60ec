#include <fmt/format.h>

#include <array>
#include <iterator>
#include <string_view>

#include "base/units.h"
#include "observe/activation_report.h"
#include "observe/expert_shares.h"

namespace soli {
namespace {

// ANSI styles.
constexpr int kPlain = 0;
constexpr int kBold = 1;
constexpr int kYellow = 33;

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string three_decimals(double value) { return fmt::format("{:.3f}", value); }
std::string optional_text(const std::optional<double>& value) { return value ? three_decimals(*value) : "-"; }

/// A figure of a token: its name, how it is shown, and its place in a summary.
struct Figure {
  std::string_view name;
  std::string_view short_name;  // the head of a column
  std::string (*text)(double);
  Spread ActivationSummary::*spread;
  bool of_moe_only;
};

constexpr std::array<Figure, 6> kFigures = {{
    {"active parameters", "active", format_count, &ActivationSummary::active_parameters, false},
    {"activation ratio", "ratio", percent, &ActivationSummary::activation_ratio, false},
    {"effective experts", "eff. experts", three_decimals, &ActivationSummary::effective_experts, true},
    {"gate entropy, bits", "gate entropy", three_decimals, &ActivationSummary::gate_entropy_bits, true},
    {"touched bytes", "touched", format_mean_bytes, &ActivationSummary::touched_bytes, false},
    {"FLOP", "FLOP", format_count, &ActivationSummary::flops, false},
}};

class TextReport {
 public:
  TextReport(const ActivationReport& report, bool colour) : report_(report), colour_(colour) {}

  std::string render() {
    add_title();
    if (report_.tokens.empty()) {
      print("no token was recorded in full\n");
      return std::move(text_);
    }
    add_tokens();
    add_positions();
    if (report_.is_moe()) {
      add_layers();
      add_request();
    }
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void print_styled(int style, std::string_view line) {
    if (colour_ && style != kPlain) {
      print("\x1b[{}m{}\x1b[0m\n", style, line);
    } else {
      print("{}\n", line);
    }
  }

  void add_title() {
    print_styled(kBold, fmt::format("Activation report: {}", report_.model));
    print("{} nominal parameters; {} ({}) are active for every token", counted(report_.nominal_parameters),
          counted(report_.always_active.parameters),
          percent(static_cast<double>(report_.always_active.parameters) /
                  static_cast<double>(report_.nominal_parameters)));
    if (report_.is_moe()) {
      print(", {} of {} experts per layer", report_.experts_per_token, report_.n_experts);
    }
    print("\n{} tokens of the prompt, {} generated and processed; every figure is counted\n",
          report_.prompt.n_tokens, report_.generated.n_tokens);
    if (report_.n_incomplete > 0) {
      print_styled(kYellow, fmt::format("{} tokens are left out: not all of their layers were recorded",
                                        report_.n_incomplete));
    }
    if (report_.n_dropped > 0) {
      print_styled(kYellow, fmt::format("{} routes were dropped: the recorder was full", report_.n_dropped));
    }
  }

  void add_tokens() {
    print_styled(kBold, fmt::format("\n{:<20}{:>13}{:>13}{:>13}{:>13}{:>13}{:>13}", "per token", "mean",
                                    "min", "max", "spread", "prompt", "generated"));
    for (const Figure& figure : kFigures) {
      if (figure.of_moe_only && !report_.is_moe()) continue;
      const Spread& all = report_.all.*figure.spread;
      print("{:<20}{:>13}{:>13}{:>13}{:>13}{:>13}{:>13}\n", figure.name, figure.text(all.mean),
            figure.text(all.min), figure.text(all.max), figure.text(all.deviation),
            mean_of(report_.prompt, figure), mean_of(report_.generated, figure));
    }
  }

  void add_positions() {
    std::string heading = fmt::format("\n{:<16}{:>6}", "by position", "tokens");
    for (const Figure& figure : kFigures) {
      if (figure.of_moe_only && !report_.is_moe()) continue;
      heading += fmt::format("{:>13}", figure.short_name);
    }
    print_styled(kBold, heading);
    for (const PositionBin& bin : report_.by_position) {
      print("{:<16}{:>6}", fmt::format("{}-{}", bin.first_position, bin.end_position - 1),
            bin.summary.n_tokens);
      for (const Figure& figure : kFigures) {
        if (!figure.of_moe_only || report_.is_moe()) print("{:>13}", mean_of(bin.summary, figure));
      }
      print("\n");
    }
  }

  void add_layers() {
    print_styled(kBold, fmt::format("\n{:>5}{:>12}{:>13}{:>7}{:>7}{:>7}{:>9}{:>8}{:>9}{:>7}{:>7}{:>8}",
                                    "layer", "hottest", "coldest", "bits", "norm.", "CV", "max/mean", "never",
                                    "overlap", "top-1", "union", "gain"));
    for (const LayerActivation& layer : report_.layers) add_layer(layer);
  }

  void add_layer(const LayerActivation& layer) {
    const bool biased =
        layer.shares.variation > kBiasedVariation || layer.shares.never_called > kBiasedNeverCalled;
    const std::string line = fmt::format(
        "{:>5}{:>12}{:>13}{:>7.3f}{:>7.3f}{:>7.3f}{:>9.2f}{:>8}{:>9}{:>7}{:>7}{:>8.3f}", layer.layer,
        expert_text(layer.shares.hottest_expert, layer.shares.hottest_share),
        expert_text(layer.shares.coldest_expert, layer.shares.coldest_share), layer.shares.entropy_bits,
        layer.shares.entropy_normalised, layer.shares.variation, layer.shares.max_over_mean,
        percent(layer.shares.never_called), optional_text(layer.stability),
        optional_text(layer.top1_change_rate), layer.shares.distinct, layer.sharing_gain);
    print_styled(biased ? kYellow : kPlain, line);
  }

  void add_request() {
    const auto n_pairs = static_cast<int64_t>(report_.layers.size()) * report_.n_experts;
    print_styled(kBold, "\nrequest");
    print("distinct (layer, expert) pairs {} of {}, union ratio {}; bytes touched in all {}\n",
          report_.distinct_pairs, n_pairs, percent(report_.union_ratio), format_bytes(report_.union_bytes));
    print("expected union {:.1f} if tokens chose independently; sharing gain {:.3f}\n",
          report_.expected_union, report_.sharing_gain);
    print("consecutive tokens: overlap of expert sets {}, rate of top-1 changes {}\n",
          optional_text(report_.stability), optional_text(report_.top1_change_rate));
  }

  static std::string counted(int64_t count) { return format_count(static_cast<double>(count)); }
  static std::string expert_text(int64_t expert, double share) {
    return fmt::format("#{} {:.1f} %", expert, 100 * share);
  }
  static std::string mean_of(const ActivationSummary& summary, const Figure& figure) {
    return summary.n_tokens == 0 ? "-" : figure.text((summary.*figure.spread).mean);
  }

  const ActivationReport& report_;
  const bool colour_;
  std::string text_;
};

}  // namespace

std::string render_text(const ActivationReport& report, bool colour) {
  return TextReport(report, colour).render();
}

}  // namespace soli
