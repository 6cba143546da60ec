#include "cli/replay_report.h"

#include <fmt/format.h>

#include <iterator>

#include "base/utf8.h"
#include "experts/cache_counters.h"

namespace soli::cli {
namespace {

using Json = nlohmann::ordered_json;

double same_calls(const ChoiceAgreement& agreement) {
  return share(agreement.n_same_calls, agreement.n_calls);
}
double same_choices(const ChoiceAgreement& agreement) {
  return share(agreement.n_same_choices, agreement.n_choices);
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json agreement_json(const ChoiceAgreement& agreement) {
  return {{"calls", agreement.n_calls},
          {"same_calls", agreement.n_same_calls},
          {"choices", agreement.n_choices},
          {"same_choices", agreement.n_same_choices}};
}

Json replayed_json(const ReplayRun& run, const TraceShape& shape) {
  const Perplexity perplexity = run.perplexity();
  const bool is_scored = perplexity.n_tokens > 0;
  Json json = {{"scored_tokens", perplexity.n_tokens},
               {"nats_per_token", is_scored ? Json(perplexity.nats_per_token) : Json()},
               {"nats_per_token_error", or_null(perplexity.nats_error)},
               {"perplexity", is_scored ? Json(perplexity.perplexity()) : Json()},
               {"perplexity_error", or_null(perplexity.perplexity_error())},
               {"agreement", agreement_json(run.total())}};
  json["agreement"]["layers"] = Json::array();
  for (size_t l = 0; l < run.agreement.size(); ++l) {
    Json layer = {{"layer", shape.moe_layers[l]}};
    layer.update(agreement_json(run.agreement[l]));
    json["agreement"]["layers"].push_back(std::move(layer));
  }
  return json;
}

std::string shown(const Perplexity& perplexity) {
  if (perplexity.n_tokens == 0) return "no token has one before it";
  const std::optional<double> error = perplexity.perplexity_error();
  return fmt::format("{:.4f}{}", perplexity.perplexity(), error ? fmt::format(" +- {:.4f}", *error) : "");
}

void add_divergence(const ReplayFigures& figures, std::string& text) {
  const Divergence divergence = figures.divergence.summarise();
  fmt::format_to(
      std::back_inserter(text),
      "KL(own || forced), nats: mean {:.5f} +- {:.5f}, 99th percentile {:.4f}, largest {:.4f}\n"
      "the most likely token is the same at {:.2f} % of {} positions; the logits are the same to the "
      "bit at {}\n",
      divergence.mean_kl, divergence.mean_kl_error, divergence.p99_kl, divergence.largest_kl,
      100 * divergence.top_agreement, divergence.n_positions, figures.divergence.n_identical);
}

/// A line for each layer, and one for all.
void add_agreement(const ReplayFigures& figures, std::string& text) {
  text += fmt::format("\nrecorded choices that the model makes by itself, after forced ones{}\n",
                      figures.own ? " and after its own" : "");
  text += fmt::format("{:>6} {:>10} {:>9} {:>9}", "layer", "calls", "same, %", "sets, %");
  text += figures.own ? fmt::format(" {:>9} {:>9}\n", "own, %", "sets, %") : "\n";
  const auto add = [&](const std::string& name, const ChoiceAgreement& forced, const ChoiceAgreement* own) {
    text += fmt::format("{:>6} {:>10} {:>9.2f} {:>9.2f}", name, forced.n_calls, 100 * same_calls(forced),
                        100 * same_choices(forced));
    if (own != nullptr)
      text += fmt::format(" {:>9.2f} {:>9.2f}", 100 * same_calls(*own), 100 * same_choices(*own));
    text += "\n";
  };
  for (size_t l = 0; l < figures.forced.agreement.size(); ++l) {
    add(fmt::to_string(figures.info.shape.moe_layers[l]), figures.forced.agreement[l],
        figures.own ? &figures.own->agreement[l] : nullptr);
  }
  const ChoiceAgreement own = figures.own ? figures.own->total() : ChoiceAgreement();
  add("all", figures.forced.total(), figures.own ? &own : nullptr);
}

}  // namespace

const char* name_of(ReplayWeights weights) {
  return weights == ReplayWeights::kRecorded ? "recorded" : "router";
}

std::string render_text(const ReplayFigures& figures) {
  const TraceInfo& info = figures.info;
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "model       {}, {}\n", printable(figures.model, 400),
                 printable(figures.replay.model.path, 4096));
  fmt::format_to(out, "trace       {}: {} requests, {} tokens, of {} ({})\n",
                 printable(figures.replay.trace, 4096), figures.n_requests, figures.n_tokens,
                 printable(info.model, 200), printable(info.architecture, 200));
  if (figures.n_skipped > 0)
    fmt::format_to(out, "left out    {} requests that are not whole\n", figures.n_skipped);
  fmt::format_to(out, "weights     {}\n",
                 figures.replay.weights == ReplayWeights::kRecorded ? "as they were recorded"
                                                                    : "by the model's own router");
  fmt::format_to(out, "perplexity  {} with the recorded choices", shown(figures.forced.perplexity()));
  if (figures.own) fmt::format_to(out, ", {} with the model's own", shown(figures.own->perplexity()));
  text += "\n";
  if (figures.own) add_divergence(figures, text);
  add_agreement(figures, text);
  return text;
}

Json to_json(const ReplayFigures& figures) {
  const TraceInfo& info = figures.info;
  Json json = {
      {"model", figures.replay.model.path},
      {"trace", figures.replay.trace},
      {"recorded", {{"model", info.model}, {"architecture", info.architecture}, {"file", info.model_file}}},
      {"same_model", or_null(figures.is_same_model)},
      {"weights", name_of(figures.replay.weights)},
      {"requests", figures.n_requests},
      {"requests_left_out", figures.n_skipped},
      {"tokens", figures.n_tokens},
      {"forced", replayed_json(figures.forced, info.shape)},
      {"own", figures.own ? replayed_json(*figures.own, info.shape) : Json()},
      {"divergence", Json()}};
  if (!figures.own) return json;
  const Divergence divergence = figures.divergence.summarise();
  json["divergence"] = {{"positions", divergence.n_positions},
                        {"identical_positions", figures.divergence.n_identical},
                        {"mean_kl", divergence.mean_kl},
                        {"mean_kl_error", divergence.mean_kl_error},
                        {"p99_kl", divergence.p99_kl},
                        {"largest_kl", divergence.largest_kl},
                        {"top_agreement", divergence.top_agreement}};
  return json;
}

}  // namespace soli::cli
