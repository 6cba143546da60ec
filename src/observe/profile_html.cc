#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "observe/html_text.h"
#include "observe/profile_page.h"

namespace soli {
namespace profile_page {

std::vector<Target> targets_of(const ProfileReport& report) {
  std::vector<Target> targets = {{"all", &report.all}};
  for (size_t d = 0; d < report.domains.size(); ++d)
    targets.push_back({fmt::to_string(d), &report.domains[d]});
  return targets;
}

namespace {

/// Of the page, with its address in it.
struct PageSection {
  const char* id;
  const char* heading;
};

class HtmlPage {
 public:
  HtmlPage(const ProfileReport& report, const ProfileSource& source)
      : report_(report), source_(source), json_(to_json(report, source)) {}

  std::string text() {
    head();
    page_ += "<body>\n";
    summary();
    navigation();
    page_ += "<main>\n";
    sections();
    page_ += "</main>\n<script type=\"application/json\" id=\"report\">";
    page_ += json_in_html(json_.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    page_ += fmt::format("</script>\n<script>{}</script>\n</body>\n</html>\n", kScript);
    return std::move(page_);
  }

 private:
  void head() {
    page_ = fmt::format(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" "
        "content=\"{}\">\n<title>Routing profile of {}</title>\n<style>{}</style>\n</head>\n",
        kContentPolicy, html_text(report_.model), kStyleSheet);
  }

  void fact(const char* name, const std::string& value) {
    page_ += fmt::format("<dt>{}</dt><dd><bdi>{}</bdi></dd>\n", name, html_text(value));
  }

  void summary() {
    const RoutingFigures& total = report_.all.total;
    page_ += fmt::format("<header>\n<h1>Routing profile of <bdi>{}</bdi></h1>\n", html_text(report_.model));
    if (!source_.is_complete)
      page_ +=
          "<p><strong>The run was stopped before all was read: this is what was read so far.</strong></p>\n";
    add_verdict(total, page_);
    page_ += "<dl>\n";
    fact("Model file", source_.model_file);
    fact("Routing", fmt::format("{} layers with {} experts, {} per token", report_.all.layers.size(),
                                report_.n_experts, report_.experts_per_token));
    fact("Policy", source_.policy == "{}" ? "the model's own routing" : source_.policy);
    std::string domains;
    for (const TargetReport& domain : report_.domains)
      domains +=
          fmt::format("{}{} ({} tokens)", domains.empty() ? "" : ", ", domain.name, domain.total.n_tokens);
    fact("Domains", domains);
    fact("Texts", source_.data);
    fact("Read", fmt::format("{} tokens in {} windows of {} positions", total.n_tokens, report_.all.n_windows,
                             report_.window));
    fact("Resampling", fmt::format("{} sampled tokens, {} replicates, seed {}", report_.all.n_sampled_tokens,
                                   kProfileReplicates, report_.seed));
    if (!report_.against.empty())
      fact("Compared with", fmt::format("a saved profile of {}", report_.against));
    page_ += "</dl>\n</header>\n";
  }

  void navigation() {
    page_ += "<nav aria-label=\"Sections\"><ul>\n";
    const auto link = [&](const PageSection& section) {
      page_ += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", section.id, section.heading);
    };
    for (const PageSection& section : {kVerdicts, kMaps, kLayers, kPositions, kBatches, kPairs, kSpecialists})
      link(section);
    if (!report_.against.empty()) link({"drift", "Drift"});
    link(kFigures);
    page_ += "</ul></nav>\n";
  }

  void begin(const PageSection& section) {
    page_ += fmt::format("<section id=\"{0}\" aria-labelledby=\"{0}-head\"><h2 id=\"{0}-head\">{1}</h2>\n",
                         section.id, section.heading);
  }
  void end() { page_ += "</section>\n"; }

  void sections() {
    begin(kVerdicts);
    add_verdict_table(json_, page_);
    end();
    begin(kMaps);
    add_heat_maps(report_, page_);
    end();
    begin(kLayers);
    add_layer_curves(report_, page_);
    end();
    begin(kPositions);
    page_ += "<p>Means over layers, in bins of positions that double.</p>\n";
    add_position_curves(report_, page_);
    add_position_table(json_, page_);
    end();
    begin(kBatches);
    page_ +=
        "<p>How many different experts so many consecutive tokens of a text call, and how many they would "
        "call if "
        "each chose independently by the shares. What is shared is read once.</p>\n";
    add_batch_curves(report_, page_);
    add_batch_table(json_, page_);
    end();
    begin(kPairs);
    add_coactivation(report_, page_);
    end();
    begin(kSpecialists);
    add_specialists(report_, page_);
    end();
    add_drift(report_, page_);
    begin(kFigures);
    page_ +=
        "<p>The formulas are in docs/profiling.md. All figures with all their digits, and those by position "
        "and "
        "batch of each layer, stand in this file as JSON, as <code>soli profile --json</code> prints "
        "it.</p>\n";
    add_figure_tables(json_, page_);
    end();
  }

  static constexpr PageSection kVerdicts = {"verdicts", "Verdict by domain"};
  static constexpr PageSection kMaps = {"experts", "Which experts are called"};
  static constexpr PageSection kLayers = {"layers", "Layer by layer"};
  static constexpr PageSection kPositions = {"positions", "Along the text"};
  static constexpr PageSection kBatches = {"batches", "Tokens together"};
  static constexpr PageSection kPairs = {"pairs", "Experts together"};
  static constexpr PageSection kSpecialists = {"specialists", "Specialists"};
  static constexpr PageSection kFigures = {"figures", "All figures"};

  const ProfileReport& report_;
  const ProfileSource& source_;
  const nlohmann::ordered_json json_;
  std::string page_;
};

}  // namespace
}  // namespace profile_page

std::string render_html(const ProfileReport& report, const ProfileSource& source) {
  return profile_page::HtmlPage(report, source).text();
}

}  // namespace soli
