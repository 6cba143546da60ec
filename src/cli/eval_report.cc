#include "cli/eval_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/units.h"
#include "base/utf8.h"
#include "model/policy_text.h"

namespace soli::cli {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json divergence_json(const Divergence& divergence) {
  return {{"positions", divergence.n_positions},       {"mean_kl", divergence.mean_kl},
          {"mean_kl_error", divergence.mean_kl_error}, {"p99_kl", divergence.p99_kl},
          {"largest_kl", divergence.largest_kl},       {"top_agreement", divergence.top_agreement}};
}

size_t widest_name(const auto& domains) {
  size_t width = 6;
  for (const auto& domain : domains) width = std::max(width, printable(domain.name, 40).size());
  return width;
}

}  // namespace

Json to_json(const EvalResult& result) {
  const Perplexity perplexity = result.perplexity();
  Json json = {{"tokens", perplexity.n_tokens},
               {"windows", perplexity.n_windows},
               {"window", result.window},
               {"complete", result.complete},
               {"nats_per_token", perplexity.nats_per_token},
               {"nats_per_token_error", optional_json(perplexity.nats_error)},
               {"perplexity", perplexity.perplexity()},
               {"perplexity_error", optional_json(perplexity.perplexity_error())},
               {"seconds", result.seconds},
               {"tokens_per_second", result.tokens_per_second()},
               {"experts_per_token", result.active.experts_per_token()},
               {"active_parameters", result.active.parameters_per_token()},
               {"active_bytes", result.active.bytes_per_token()},
               {"overflow_moved", result.overflow.n_moved},
               {"overflow_dropped", result.overflow.n_dropped}};
  if (result.bytes_read) json["expert_bytes_read"] = *result.bytes_read;
  return json;
}

Json to_json(const Comparison& comparison) {
  Json json = to_json(comparison.lossy);
  json["exact"] = to_json(comparison.exact);
  json["divergence"] = divergence_json(comparison.divergence.summarise());
  json["moved_share"] = share(comparison.rerouted.n_moved, comparison.rerouted.n_calls);
  json["twin_share"] = share(comparison.rerouted.n_twins, comparison.rerouted.n_used);
  return json;
}

Json eval_setup_json(const EvalOptions& options, Session& session, const RoutingPolicy& policy) {
  Json json = {{"model", options.model.path}};
  json[options.texts.folder.empty() ? "text" : "data"] =
      options.texts.folder.empty() ? options.texts.file : options.texts.folder;
  json["policy"] = policy_json(policy);
  json["act"] = name_of(session.options().engine.activations);
  json["kv"] = name_of(session.options().engine.kv_type);
  json["memory"] = to_json(session.plan(), session.options().memory);
  json["peak_resident_bytes"] = peak_resident_bytes();
  return json;
}

std::string render_text(const EvalResult& result) {
  const Perplexity perplexity = result.perplexity();
  std::string text;
  const auto out = std::back_inserter(text);
  const auto error = [](const std::optional<double>& value) {
    return value ? fmt::format(" +- {:.4f}", *value) : std::string();
  };
  fmt::format_to(out, "perplexity      {:.4f}{}\n", perplexity.perplexity(),
                 error(perplexity.perplexity_error()));
  fmt::format_to(out, "nats per token  {:.4f}{}\n", perplexity.nats_per_token, error(perplexity.nats_error));
  fmt::format_to(out, "tokens          {} in {} windows of {} positions{}\n", perplexity.n_tokens,
                 perplexity.n_windows, result.window, result.complete ? "" : ", interrupted");
  fmt::format_to(out, "speed           {:.1f} tokens/s ({:.1f} s)\n", result.tokens_per_second(),
                 result.seconds);
  fmt::format_to(out, "active          {} parameters, {} per token\n",
                 format_count(result.active.parameters_per_token()),
                 format_bytes(static_cast<int64_t>(result.active.bytes_per_token())));
  if (result.active.n_layers > 0)
    fmt::format_to(out, "experts         {:.3f} per token and layer\n", result.active.experts_per_token());
  const OverflowCounts& overflow = result.overflow;
  if (overflow.n_moved + overflow.n_dropped > 0) {
    fmt::format_to(out, "overflow        {} calls to the next best, {} dropped\n", overflow.n_moved,
                   overflow.n_dropped);
  }
  if (result.bytes_read && perplexity.n_tokens > 0) {
    fmt::format_to(out, "experts read    {} per token\n",
                   format_bytes(*result.bytes_read / perplexity.n_tokens));
  }
  if (!perplexity.nats_error) text += "one window only: no standard error\n";
  return text;
}

std::string render_text(const Comparison& comparison) {
  std::string text = "exact\n" + render_text(comparison.exact) + "\nlossy\n" + render_text(comparison.lossy);
  const auto out = std::back_inserter(text);
  const Divergence divergence = comparison.divergence.summarise();
  fmt::format_to(
      out, "\nKL(exact || lossy), nats: mean {:.5f} +- {:.5f}, 99th percentile {:.4f}, largest {:.4f}\n",
      divergence.mean_kl, divergence.mean_kl_error, divergence.p99_kl, divergence.largest_kl);
  fmt::format_to(out, "the most likely token is the same at {:.2f} % of {} positions\n",
                 100 * divergence.top_agreement, divergence.n_positions);
  const Rerouted& rerouted = comparison.rerouted;
  if (rerouted.n_used == 0) return text;
  fmt::format_to(
      out,
      "{:.2f} % of the calls went to another expert than the model's choice; {:.2f} % of the experts of a "
      "step were twins\n",
      100 * share(rerouted.n_moved, rerouted.n_calls), 100 * share(rerouted.n_twins, rerouted.n_used));
  return text;
}

std::string render_text(const std::vector<OfDomain<EvalResult>>& domains) {
  const size_t width = widest_name(domains);
  std::string text = fmt::format("\n{:<{}} {:>10} {:>12} {:>10} {:>10} {:>10}\n", "domain", width, "tokens",
                                 "perplexity", "experts", "active", "tokens/s");
  for (const auto& [name, result] : domains) {
    const Perplexity perplexity = result.perplexity();
    text += fmt::format("{:<{}} {:>10} {:>12.4f} {:>10.3f} {:>10} {:>10.1f}\n", printable(name, 40), width,
                        perplexity.n_tokens, perplexity.perplexity(), result.active.experts_per_token(),
                        format_count(result.active.parameters_per_token()), result.tokens_per_second());
  }
  return text;
}

std::string render_text(const std::vector<OfDomain<Comparison>>& domains) {
  const size_t width = widest_name(domains);
  std::string text = fmt::format("\n{:<{}} {:>8} {:>11} {:>11} {:>9} {:>9} {:>7} {:>8} {:>9} {:>9}\n",
                                 "domain", width, "tokens", "exact", "perplexity", "mean KL", "p99 KL",
                                 "top, %", "experts", "active", "tokens/s");
  for (const auto& [name, comparison] : domains) {
    const EvalResult& lossy = comparison.lossy;
    const Divergence divergence = comparison.divergence.summarise();
    text += fmt::format(
        "{:<{}} {:>8} {:>11.4f} {:>11.4f} {:>9.5f} {:>9.4f} {:>7.2f} {:>8.3f} {:>9} {:>9.1f}\n",
        printable(name, 40), width, lossy.perplexity().n_tokens, comparison.exact.perplexity().perplexity(),
        lossy.perplexity().perplexity(), divergence.mean_kl, divergence.p99_kl,
        100 * divergence.top_agreement, lossy.active.experts_per_token(),
        format_count(lossy.active.parameters_per_token()), lossy.tokens_per_second());
  }
  return text;
}

}  // namespace soli::cli
