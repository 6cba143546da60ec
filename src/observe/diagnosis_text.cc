#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/utf8.h"
#include "observe/diagnosis_report.h"

namespace soli {
namespace {

constexpr size_t kWidestToken = 16;  // bytes
constexpr size_t kMostSaid = 3;      // tokens per call

/// As a terminal may show it: line ends and tabs stay, other control characters become U+FFFD.
std::string shown_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Unit unit = utf8_front(text);
    const uint32_t c = unit.code_point;
    const bool is_control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c < 0xA0);
    append_utf8(out, is_control ? 0xFFFD : c);
    text.remove_prefix(unit.bytes);
  }
  return out;
}

std::string in_quotes(std::string_view text) {
  std::string out;
  out += '"';
  out += printable(text, kWidestToken);
  out += '"';
  return out;
}

std::string whole_percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

std::string label_of(FfnKind kind, int32_t expert) {
  return kind == FfnKind::kRouted ? fmt::format("#{}", expert) : name_of(kind);
}

class DiagnosisText {
 public:
  DiagnosisText(const DiagnosisReport& report, const DiagnosisView& view)
      : report_(report), view_(view), leading_(leading_experts(report, view.layer)) {}

  std::string render() {
    add_title();
    if (report_.tokens.n_tokens() == 0) return std::move(text_);
    add_text();
    add_calls();
    if (report_.n_experts > 0) add_changes();
    add_units();
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void heading(std::string_view line) {
    if (view_.colour) {
      print("\n\x1b[1m{}\x1b[0m\n", line);
    } else {
      print("\n{}\n", line);
    }
  }

  void add_title() {
    print("Diagnosis: {}, {} layers", report_.model, report_.n_layers());
    if (report_.n_experts > 0)
      print(", {} experts in a layer, {} per token", report_.n_experts, report_.experts_per_token);
    print("\n{} tokens of the text, {} generated", report_.n_prompt,
          report_.tokens.n_tokens() - report_.n_prompt);
    if (report_.is_cut()) print("; the text has {} tokens and was cut", report_.n_given);
    print("\n");
  }

  /// Its place in the list of colours.
  size_t colour_of(int64_t position) const {
    constexpr size_t kOther = kDiagnosisColours.size() - 1;
    if (view_.colour_by == DiagnosisView::ColourBy::kSegments)
      return static_cast<size_t>(report_.segment_of(position)) % kOther;
    const auto expert = report_.leading_expert(position, view_.layer);
    const auto found = std::find_if(leading_.begin(), leading_.end(),
                                    [&](const LeadingExpert& each) { return expert == each.expert; });
    return std::min(static_cast<size_t>(found - leading_.begin()), kOther);
  }

  void add_coloured(size_t colour, std::string_view text) {
    const NamedColour& named = kDiagnosisColours[colour];
    print("\x1b[38;5;{};48;5;{}m{}\x1b[0m", named.is_dark ? 231 : 16, named.terminal, text);
  }

  /// The colour of a token ends before a line does, or terminals would colour the rest of the line.
  void add_token(int64_t position) {
    const std::string shown = shown_text(report_.texts[static_cast<size_t>(position)]);
    std::string_view rest = shown;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      if (end > 0) add_coloured(colour_of(position), rest.substr(0, end));
      if (end < rest.size()) print("\n");
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

  void add_text() {
    const bool by_experts = view_.colour_by == DiagnosisView::ColourBy::kExperts;
    if (!view_.colour) {
      heading("the text; | stands at change points");
    } else if (by_experts) {
      heading(fmt::format("the text, by the expert of layer {} with the largest weight", view_.layer));
    } else {
      heading("the text, by the parts between change points");
    }
    for (int64_t position = 0; position < report_.tokens.n_tokens(); ++position) {
      if (view_.colour) {
        add_token(position);
        continue;
      }
      if (position > 0 && report_.segment_of(position) != report_.segment_of(position - 1)) print("|");
      print("{}", shown_text(report_.texts[static_cast<size_t>(position)]));
    }
    print("\n");
    if (view_.colour && by_experts) add_legend();
  }

  void add_legend() {
    const size_t n = std::min(leading_.size(), kDiagnosisColours.size() - 1);
    int64_t n_named = 0;
    for (size_t i = 0; i < n; ++i) {
      add_coloured(i, fmt::format(" #{} ", leading_[i].expert));
      print(" {} tokens  ", leading_[i].n_tokens);
      n_named += leading_[i].n_tokens;
    }
    if (n_named < report_.tokens.n_tokens()) {
      add_coloured(kDiagnosisColours.size() - 1, " others ");
      print(" {} tokens", report_.tokens.n_tokens() - n_named);
    }
    print("\n");
  }

  void add_calls() {
    if (view_.position) {
      const auto position = static_cast<size_t>(*view_.position);
      heading(fmt::format("token {}, {}, in all layers", position, in_quotes(report_.texts[position])));
    } else {
      heading(fmt::format("layer {}", view_.layer));
    }
    print("{:>5} {:<18} {:>9} {:>7}  {:<7} {:>7} {:>7} {:>7}  {}\n", view_.position ? "layer" : "pos",
          view_.position ? "" : "token", "|r|", "added", "expert", "weight", "|c|/|r|", "active",
          report_.tokens.n_top > 0 ? "says" : "");
    if (view_.position) {
      for (int64_t layer = 0; layer < report_.n_layers(); ++layer)
        add_path(fmt::format("{:>5} {:<18}", layer, ""), report_.tokens.path(*view_.position, layer));
      return;
    }
    for (int64_t position = 0; position < report_.tokens.n_tokens(); ++position) {
      add_path(fmt::format("{:>5} {:<18}", position, in_quotes(report_.texts[static_cast<size_t>(position)])),
               report_.tokens.path(position, view_.layer));
    }
  }

  /// A line for each call.
  void add_path(const std::string& label, const LayerPath& path) {
    const std::string left = fmt::format("{} {:>9.3g} {:>7.3f}", label, path.residual_norm, path.added_ratio);
    if (path.n_calls == 0) print("{}  none\n", left);
    for (int64_t i = 0; i < path.n_calls; ++i) {
      const int64_t number = path.first_call + i;
      const FfnCall& call = report_.tokens.calls[static_cast<size_t>(number)];
      print("{}  {:<7} {:>7.3f} {:>7.3f} {:>7}", i == 0 ? left : fmt::format("{:42}", ""),
            label_of(call.kind, call.expert), call.weight, call.residual_ratio,
            whole_percent(static_cast<double>(call.active_share)));
      const auto said = report_.tokens.said_by(number);
      for (size_t s = 0; s < std::min(said.size(), kMostSaid); ++s)
        print("  {} {:.2f}", in_quotes(report_.names.at(said[s].token)), said[s].probability);
      print("\n");
    }
  }

  void add_changes() {
    heading(fmt::format("change points of the routing (p at most {}, {} permutations)", kChangeSignificance,
                        kChangePermutations));
    if (report_.changes.empty()) print("none\n");
    for (const ChangePoint& change : report_.changes) {
      print(
          "before token {}, {}: {:.3f} bits between what precedes and what follows (permuted {:.3f}), p {}\n",
          change.at, in_quotes(report_.texts[static_cast<size_t>(change.at)]), change.divergence_bits,
          change.permuted_bits, change.p);
    }
  }

  void add_units() {
    heading(fmt::format("inner units: active above {} of their rms, dead where active for no token",
                        report_.active_threshold));
    print("{:>5} {:<7} {:>7} {:>7} {:>7} {:>12}  {}\n", "layer", "", "called", "active", "dead", "of units",
          "most dead");
    const std::vector<UsedFfn>& used = report_.tokens.used;
    for (size_t begin = 0; begin < used.size();) {
      size_t end = begin + 1;
      while (end < used.size() && used[end].layer == used[begin].layer && used[end].kind == used[begin].kind)
        ++end;
      add_units_of(std::span(used).subspan(begin, end - begin));
      begin = end;
    }
  }

  void add_units_of(std::span<const UsedFfn> ffns) {
    double active = 0;
    int64_t n_calls = 0;
    int64_t n_dead = 0;
    int64_t n_units = 0;
    for (const UsedFfn& ffn : ffns) {
      active += ffn.active_share * static_cast<double>(ffn.n_calls);
      n_calls += ffn.n_calls;
      n_dead += ffn.n_dead;
      n_units += ffn.n_units;
    }
    const UsedFfn& worst = *std::max_element(
        ffns.begin(), ffns.end(), [](const UsedFfn& a, const UsedFfn& b) { return a.n_dead < b.n_dead; });
    print("{:>5} {:<7} {:>7} {:>7} {:>7} {:>12}", worst.layer, name_of(worst.kind), ffns.size(),
          whole_percent(active / static_cast<double>(n_calls)), n_dead, n_units);
    if (worst.kind == FfnKind::kRouted)
      print("  #{}: {} of {}, calls: {}", worst.expert, worst.n_dead, worst.n_units, worst.n_calls);
    print("\n");
  }

  const DiagnosisReport& report_;
  const DiagnosisView& view_;
  const std::vector<LeadingExpert> leading_;
  std::string text_;
};

}  // namespace

std::string render_text(const DiagnosisReport& report, const DiagnosisView& view) {
  return DiagnosisText(report, view).render();
}

}  // namespace soli
