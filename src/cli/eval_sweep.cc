#include "cli/eval_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/units.h"
#include "base/utf8.h"
#include "cli/policy_options.h"
#include "model/policy_text.h"

namespace soli::cli {
namespace {

using Json = nlohmann::ordered_json;

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

Result<std::vector<std::string>> sweep_values(std::string_view sweep, std::string_view values) {
  std::vector<std::string> found;
  if (const size_t dots = values.find(".."); dots != std::string_view::npos) {
    const auto first = whole_number(values.substr(0, dots));
    const auto last = whole_number(values.substr(dots + 2));
    if (!first || !last || *first > *last || *last - *first >= static_cast<int64_t>(kMaxSweepPoints)) {
      return fail(ErrorKind::kInvalidArgument,
                  "--sweep {}: A..B are whole numbers, A first, and at most {} of them", printable(sweep),
                  kMaxSweepPoints);
    }
    for (int64_t value = *first; value <= *last; ++value) found.push_back(std::to_string(value));
    return found;
  }
  const char separator = values.find(';') == std::string_view::npos ? ',' : ';';
  while (true) {
    const size_t end = values.find(separator);
    found.emplace_back(values.substr(0, end));
    if (end == std::string_view::npos) break;
    values.remove_prefix(end + 1);
  }
  if (found.size() <= kMaxSweepPoints) return found;
  return fail(ErrorKind::kInvalidArgument, "--sweep {}: {} values; {} are allowed", printable(sweep),
              found.size(), kMaxSweepPoints);
}

}  // namespace

Result<std::vector<SweepValue>> parse_sweep(std::string_view text, const RoutingPolicy& base) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return fail(ErrorKind::kInvalidArgument, "--sweep {}: it takes KEY=A..B or KEY=VALUE,VALUE",
                printable(text));
  }
  SOLI_ASSIGN_OR_RETURN(const std::vector<std::string> values, sweep_values(text, text.substr(equals + 1)));
  std::vector<SweepValue> points;
  for (const std::string& value : values) {
    SweepValue point = {value, base};
    const std::string setting = std::string(text.substr(0, equals + 1)) + value;
    if (const Status status = apply_policy_setting(setting, point.policy); !status)
      return in_context("--sweep", status.error());
    points.push_back(std::move(point));
  }
  return points;
}

void mark_front(std::vector<EvalSweepPoint>& points) {
  const auto cost = [](const EvalSweepPoint& point) {
    return point.figures.lossy.active.parameters_per_token();
  };
  std::vector<double> kl;
  for (const EvalSweepPoint& point : points) kl.push_back(point.figures.divergence.summarise().mean_kl);
  for (size_t i = 0; i < points.size(); ++i) {
    points[i].on_front = true;
    for (size_t j = 0; j < points.size(); ++j) {
      const bool no_worse = cost(points[j]) <= cost(points[i]) && kl[j] <= kl[i];
      if (no_worse && (cost(points[j]) < cost(points[i]) || kl[j] < kl[i])) points[i].on_front = false;
    }
  }
}

Json to_json(const std::vector<EvalSweepPoint>& points) {
  Json json = Json::array();
  for (const EvalSweepPoint& point : points) {
    Json one = {{"value", point.value}, {"policy", policy_json(point.policy)}, {"on_front", point.on_front}};
    one.update(to_json(point.figures));
    if (point.domains.size() > 1) {
      for (const auto& [name, figures] : point.domains) {
        Json domain = {{"name", name}};
        domain.update(to_json(figures));
        one["domains"].push_back(std::move(domain));
      }
    }
    json.push_back(std::move(one));
  }
  return json;
}

std::string render_text(const std::string& sweep, const std::vector<EvalSweepPoint>& points) {
  const std::string key = printable(sweep.substr(0, sweep.find('=')), 40);
  size_t width = key.size();
  for (const EvalSweepPoint& point : points) width = std::max(width, printable(point.value, 40).size());
  std::string text = fmt::format("exact: perplexity {:.4f}, {} active parameters, {:.1f} tokens/s\n\n",
                                 points.front().figures.exact.perplexity().perplexity(),
                                 format_count(points.front().figures.exact.active.parameters_per_token()),
                                 points.front().figures.exact.tokens_per_second());
  text += fmt::format("{:<{}} {:>11} {:>10} {:>9} {:>8} {:>8} {:>9} {:>12} {:>9}\n", key, width, "perplexity",
                      "mean KL", "p99 KL", "top, %", "experts", "active", "bytes", "tokens/s");
  for (const EvalSweepPoint& point : points) {
    const EvalResult& lossy = point.figures.lossy;
    const Divergence divergence = point.figures.divergence.summarise();
    text += fmt::format("{:<{}} {:>11.4f} {:>10.5f} {:>9.4f} {:>8.2f} {:>8.3f} {:>9} {:>12} {:>9.1f}{}\n",
                        printable(point.value, 40), width, lossy.perplexity().perplexity(),
                        divergence.mean_kl, divergence.p99_kl, 100 * divergence.top_agreement,
                        lossy.active.experts_per_token(), format_count(lossy.active.parameters_per_token()),
                        format_bytes(static_cast<int64_t>(lossy.active.bytes_per_token())),
                        lossy.tokens_per_second(), point.on_front ? "  *" : "");
  }
  return text + "* no other is better in active parameters or mean KL without being worse in the other\n";
}

Plot plot_of(const std::string& sweep, const std::vector<EvalSweepPoint>& points) {
  Plot::Line line = {printable(sweep, 60), {}};
  for (const EvalSweepPoint& point : points) {
    line.points.emplace_back(point.figures.lossy.active.parameters_per_token() / 1e6,
                             point.figures.divergence.summarise().mean_kl);
  }
  std::sort(line.points.begin(), line.points.end());
  return {.title = "the price of a policy: mean KL, nats",
          .x_label = "active parameters, millions",
          .y_label = "mean KL, nats",
          .lines = {std::move(line)}};
}

}  // namespace soli::cli
