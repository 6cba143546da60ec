#include "observe/trace_statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/utf8.h"
#include "observe/expert_shares.h"
#include "observe/layer_statistics.h"

namespace soli {
namespace {

using Json = nlohmann::ordered_json;

/// Entropy of softmax(logits) in bits: log2 of the sum of e^(g - max), less the mean of g - max.
double softmax_entropy_bits(std::span<const float> logits) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const float g : logits) largest = std::max(largest, static_cast<double>(g));
  double sum = 0;
  double weighted = 0;
  for (const float g : logits) {
    const double above = static_cast<double>(g) - largest;
    const double e = std::exp(above);
    sum += e;
    if (e > 0) weighted += e * above;
  }
  return std::max(0.0, (std::log(sum) - weighted / sum) / std::numbers::ln2);
}

/// One layer, as rows are added.
class TraceLayerCounter {
 public:
  TraceLayerCounter(int64_t layer, int64_t n_experts) : statistics_(layer, n_experts) {}

  void begin_request() { statistics_.begin_sequence(); }
  void add(int64_t position, std::span<const int16_t> ids, std::span<const float> weights) {
    calls_.clear();
    for (size_t i = 0; i < ids.size(); ++i) calls_.push_back({ids[i], weights[i]});
    statistics_.add(position, calls_);
    effective_sum_ += effective_experts(calls_);
    ++n_tokens_;
  }
  void add_logits(std::span<const float> logits) {
    const double entropy = softmax_entropy_bits(logits);
    if (!std::isfinite(entropy)) return;  // as of a row whose values were not
    entropy_sum_ += entropy;
    ++n_with_logits_;
  }
  TraceLayerFigures figures() const {
    TraceLayerFigures figures;
    figures.activation = statistics_.result();
    figures.calls = statistics_.calls();
    if (n_tokens_ > 0) figures.effective_experts = effective_sum_ / static_cast<double>(n_tokens_);
    if (n_with_logits_ > 0) figures.router_entropy_bits = entropy_sum_ / static_cast<double>(n_with_logits_);
    return figures;
  }

 private:
  LayerStatistics statistics_;
  std::vector<ExpertCall> calls_;
  double effective_sum_ = 0;
  double entropy_sum_ = 0;
  int64_t n_tokens_ = 0;
  int64_t n_with_logits_ = 0;
};

std::vector<TraceLayerCounter> counters_of(const TraceShape& shape) {
  std::vector<TraceLayerCounter> counters;
  for (const int32_t layer : shape.moe_layers) counters.emplace_back(layer, shape.n_experts);
  return counters;
}

/// Adds a row, and says whether it called an expert in every layer.
bool add_row(const TraceRow& row, const TraceShape& shape, std::vector<TraceLayerCounter>& counters) {
  bool is_called = true;
  for (int64_t l = 0; l < shape.n_layers(); ++l) {
    TraceLayerCounter& counter = counters[static_cast<size_t>(l)];
    const auto ids = ids_of_layer(row, shape, l);
    is_called = is_called && !ids.empty();
    if (!ids.empty()) counter.add(row.position, ids, weights_of_layer(row, shape, l));
    if (row.logits.empty()) continue;
    const auto n = static_cast<size_t>(shape.n_experts);
    counter.add_logits(row.logits.subspan(static_cast<size_t>(l) * n, n));
  }
  return is_called;
}

std::string sampling_text(const TraceSampling& sampling) {
  if (sampling.share >= 1) return "all tokens";
  return fmt::format("a share of {:g} of the {}", sampling.share, sampling.of_tokens ? "tokens" : "requests");
}

Json optional_figure(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json layer_figures_json(const TraceLayerFigures& layer) {
  Json json = to_json(layer.activation);
  json["effective_experts"] = layer.effective_experts;
  json["router_entropy_bits"] = optional_figure(layer.router_entropy_bits);
  json["calls"] = layer.calls;
  return json;
}

}  // namespace

Result<TraceFigures> count_trace(TraceReader& reader) {
  const TraceShape& shape = reader.shape();
  TraceFigures figures;
  SOLI_ASSIGN_OR_RETURN(const std::vector<TraceRequest> requests, reader.requests());
  figures.n_requests = static_cast<int64_t>(requests.size());
  std::vector<TraceLayerCounter> counters = counters_of(shape);
  std::optional<uint64_t> request;
  SOLI_RETURN_IF_ERROR(reader.for_each_row({}, shape.has_logits, [&](const TraceRow& row) -> Status {
    if (request != row.request) {
      for (TraceLayerCounter& counter : counters) counter.begin_request();
    }
    request = row.request;
    ++figures.n_tokens;
    figures.n_cached += row.is_cached ? 1 : 0;
    figures.n_uncalled += add_row(row, shape, counters) ? 0 : 1;
    return {};
  }));
  for (const TraceLayerCounter& counter : counters) {
    figures.layers.push_back(counter.figures());
    figures.n_calls += figures.layers.back().activation.shares.n_calls;
  }
  return figures;
}

std::string render_text(const TraceInfo& info) {
  const TraceShape& shape = info.shape;
  std::string text = fmt::format(
      "model      {} ({})\nshape      {} layers with experts, {} experts each, room for {} per token{}\n"
      "recorded   {}, by soli {}\n",
      printable(info.model.empty() ? info.model_file : info.model), printable(info.architecture),
      shape.n_layers(), shape.n_experts, shape.k, shape.has_logits ? ", with router logits" : "",
      sampling_text(info.sampling), printable(info.soli));
  if (info.policy != "{}") text += fmt::format("policy     {}\n", printable(info.policy, 1000));
  if (!info.is_ended) text += "unfinished it is still written, or its writer was killed\n";
  return text;
}

std::string render_text(const TraceInfo& info, const TraceFigures& figures) {
  std::string text = render_text(info);
  text += fmt::format("requests   {}\ntokens     {}, {} of them from the prefix cache\n", figures.n_requests,
                      figures.n_tokens, figures.n_cached);
  text += fmt::format("lost       {} tokens, for which the buffer had no room\n", info.n_dropped);
  if (figures.n_uncalled > 0)
    text += fmt::format("no expert  {} tokens, in some layer\n", figures.n_uncalled);
  text +=
      "\n layer  hottest expert  coldest expert  entropy/max     CV  max/mean   never  effective  "
      "stability\n";
  for (const TraceLayerFigures& layer : figures.layers) {
    const LayerActivation& a = layer.activation;
    text += fmt::format(
        " {:>5} {:>6} {:>6.2f} % {:>6} {:>6.2f} % {:>12.4f} {:>6.3f} {:>9.2f} {:>5.1f} % {:>10.3f}", a.layer,
        a.shares.hottest_expert, 100 * a.shares.hottest_share, a.shares.coldest_expert,
        100 * a.shares.coldest_share, a.shares.entropy_normalised, a.shares.variation, a.shares.max_over_mean,
        100 * a.shares.never_called, layer.effective_experts);
    text += a.stability ? fmt::format(" {:>10.3f}\n", *a.stability) : fmt::format(" {:>10}\n", "-");
  }
  return text;
}

Json to_json(const TraceInfo& info, const TraceFigures& figures) {
  Json json = {{"model", info.model},
               {"architecture", info.architecture},
               {"model_file", info.model_file},
               {"policy", info.policy},
               {"soli", info.soli},
               {"sample", info.sampling.share},
               {"sample_of", info.sampling.of_tokens ? "tokens" : "requests"},
               {"started", info.started},
               {"ended", info.is_ended},
               {"moe_layers", info.shape.moe_layers},
               {"n_experts", info.shape.n_experts},
               {"k", info.shape.k},
               {"logits", info.shape.has_logits},
               {"n_requests", figures.n_requests},
               {"n_tokens", figures.n_tokens},
               {"n_cached", figures.n_cached},
               {"n_without_expert", figures.n_uncalled},
               {"n_calls", figures.n_calls},
               {"n_dropped", info.n_dropped},
               {"n_sampled_out", info.n_sampled_out},
               {"layers", Json::array()}};
  for (const TraceLayerFigures& layer : figures.layers) json["layers"].push_back(layer_figures_json(layer));
  return json;
}

}  // namespace soli
