#include "cli/bench_sweep.h"

#include <algorithm>
#include <array>

#include "base/units.h"
#include "cli/generate.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/replay_cache.h"
#include "cli/text_input.h"
#include "cli/workbench.h"
#include "experts/belady.h"

namespace soli::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kShares = {0.0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0};  // 0: the least
constexpr int64_t kMostTextBytes = int64_t{4} << 20;

SweepBound bound_of(const AccessTrace& trace, int64_t n_slots) {
  return {.n_slots = n_slots,
          .slot_share = share(n_slots, trace.n_layers() * trace.n_experts()),
          .belady_hit_rate = belady_counts(trace, n_slots).rate(),
          .static_hit_rate = best_static_counts(trace, n_slots).rate()};
}

/// The points of one model.
class ModelSweep {
 public:
  ModelSweep(Session& session, const BenchOptions& options, const InterruptGuard& interrupt)
      : session_(session), options_(options), interrupt_(interrupt), store_(*session.tiered()) {}

  Result<SweepFigures> run(std::vector<int32_t> prompt) {
    prompt_ = std::move(prompt);
    const ExpertSource& source = store_.source();
    SweepFigures figures = {
        .n_experts = source.size(), .n_tokens = options_.generate, .points = {}, .bounds = {}};
    const std::vector<int64_t> slot_bytes = budgets();
    const std::vector<CachePolicyKind> policies = compared_policies(options_.model.memory.policy);
    ProgressLine progress("measuring");
    int64_t n_done = 0;
    AccessTrace trace(source.n_layers(), source.n_experts());
    store_.set_trace(&trace);  // the same in every run, since all give the same bits
    for (const int64_t bytes : slot_bytes) {
      for (const CachePolicyKind policy : policies) {
        progress.show(n_done++, static_cast<int64_t>(slot_bytes.size() * policies.size()), name_of(policy));
        SOLI_ASSIGN_OR_RETURN(const SweepPoint point, measure(bytes, policy));
        figures.points.push_back(point);
        store_.set_trace(nullptr);
      }
      figures.bounds.push_back(bound_of(trace, figures.points.back().n_slots));
    }
    return figures;
  }

 private:
  /// Memory for slots, from the least to all experts, as far as the limit allows.
  std::vector<int64_t> budgets() const {
    const ExpertSource& source = store_.source();
    const int64_t most = session_.plan().tiers->slot_bytes;
    std::vector<int64_t> bytes;
    for (const double part : kShares) {
      std::vector<int64_t> capacities;
      for (const ExpertForm& form : source.forms()) {
        const auto n = static_cast<int64_t>(part * static_cast<double>(form.n_experts));
        capacities.push_back(std::max<int64_t>(1, n));
      }
      const int64_t needed = ExpertSlots::charged_bytes(source, capacities);
      if (needed <= most) bytes.push_back(needed);
    }
    return bytes;
  }

  Result<SweepPoint> measure(int64_t slot_bytes, CachePolicyKind policy) {
    SOLI_RETURN_IF_ERROR(store_.restart(slot_bytes, policy));
    SOLI_RETURN_IF_ERROR(session_.fill_slots());
    SOLI_ASSIGN_OR_RETURN(const std::shared_ptr<Stream> stream,
                          session_.engine().submit({.prompt = prompt_,
                                                    .max_new_tokens = options_.generate,
                                                    .sampling = {.temperature = 0},
                                                    .policy = session_.policy()}));
    const auto close_if_interrupted = [&] {
      if (interrupt_.interrupted()) stream->close();
    };
    std::optional<Stopwatch> watch;  // from the first token on
    CacheCounters before;
    double seconds = 0;
    int64_t n_tokens = 0;
    while (true) {
      SOLI_ASSIGN_OR_RETURN(const StreamEvent event,
                            next_event(session_.engine(), *stream, close_if_interrupted));
      if (event.error) return tl::unexpected<Error>(*event.error);
      if (event.kind == StreamEvent::Kind::kFinished) break;
      if (!watch) {
        watch.emplace();
        before = sum(store_.counters());
        continue;
      }
      ++n_tokens;
      seconds = watch->seconds();
    }
    if (interrupt_.interrupted()) return fail(ErrorKind::kCancelled, "interrupted");
    const CacheCounters counted = sum(store_.counters()) - before;
    const int64_t n_slots = store_.slots().total_capacity();
    return SweepPoint{.policy = policy,
                      .budget_bytes = session_.plan().tiers->fixed_bytes + slot_bytes,
                      .n_slots = n_slots,
                      .slot_share = share(n_slots, store_.source().size()),
                      .tokens_per_s = static_cast<double>(n_tokens) / seconds,
                      .hit_rate = share(counted.hits, counted.calls()),
                      .bytes_per_token = share(counted.bytes_read(), n_tokens)};
  }

  Session& session_;
  const BenchOptions& options_;
  const InterruptGuard& interrupt_;
  TieredExpertStore& store_;
  std::vector<int32_t> prompt_;
};

/// The beginning of a text, or random tokens.
Result<std::vector<int32_t>> sweep_prompt(Session& session, const BenchOptions& options) {
  constexpr int64_t kPromptTokens = 64;
  if (options.generate < 2) {
    return fail(ErrorKind::kInvalidArgument,
                "--generate {}: --memory-sweep measures from the first token to the last, and needs 2",
                options.generate);
  }
  const int64_t n = std::min(kPromptTokens, session.context_length() - options.generate);
  if (n < 1) {
    return fail(ErrorKind::kInvalidArgument, "--generate {}: the context has room for {} (-c)",
                options.generate, session.context_length());
  }
  if (options.text.empty()) return random_tokens(session, n);
  SOLI_ASSIGN_OR_RETURN(const std::string text, read_text(options.text, kMostTextBytes));
  SOLI_ASSIGN_OR_RETURN(const Tokenizer* const tokenizer, session.tokenizer());
  SOLI_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer->encode(text, {.add_special = true}));
  if (tokens.empty()) return fail(ErrorKind::kInvalidArgument, "--text {}: it is empty", options.text);
  tokens.resize(std::min(tokens.size(), static_cast<size_t>(n)));
  return tokens;
}

}  // namespace

Result<SweepFigures> sweep_model(Session& session, const BenchOptions& options,
                                 const InterruptGuard& interrupt) {
  if (!session.spec().is_moe()) {
    return fail(ErrorKind::kInvalidArgument, "--memory-sweep: this is a dense model, which has no experts");
  }
  SOLI_ASSIGN_OR_RETURN(std::vector<int32_t> prompt, sweep_prompt(session, options));
  EngineOptions engine = options.model.engine;
  engine.max_sequences = 1;
  engine.max_logit_rows = 1;
  const int64_t n_positions = static_cast<int64_t>(prompt.size()) + options.generate;
  SOLI_RETURN_IF_ERROR(session.load(engine, n_positions));
  return ModelSweep(session, options, interrupt).run(std::move(prompt));
}

Result<SweepFigures> sweep_trace(const BenchOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const AccessTrace trace, read_turns(options.replay, options.model.engine.chunk_rows));
  const int64_t n_experts = trace.n_layers() * trace.n_experts();
  SweepFigures figures = {.n_experts = n_experts, .n_tokens = 0, .points = {}, .bounds = {}};
  for (const double part : kShares) {
    const int64_t n_slots = std::max<int64_t>(1, static_cast<int64_t>(part * static_cast<double>(n_experts)));
    for (const CachePolicyKind kind : compared_policies(options.model.memory.policy)) {
      figures.points.push_back({.policy = kind,
                                .n_slots = n_slots,
                                .slot_share = share(n_slots, n_experts),
                                .hit_rate = simulate(trace, kind, n_slots).rate()});
    }
    figures.bounds.push_back(bound_of(trace, n_slots));
  }
  return figures;
}

std::string render_text(const SweepFigures& figures) {
  std::string text = fmt::format("\n{:<12} {:>12} {:>8} {:>9} {:>8} {:>12} {:>10}\n", "policy", "memory",
                                 "slots", "of all, %", "hit, %", "read/token", "tokens/s");
  for (const SweepPoint& point : figures.points) {
    text +=
        fmt::format("{:<12} {:>12} {:>8} {:>9.1f} {:>8.1f} {:>12} {:>10}\n", name_of(point.policy),
                    point.budget_bytes > 0 ? format_bytes(point.budget_bytes) : "", point.n_slots,
                    100 * point.slot_share, 100 * point.hit_rate,
                    point.bytes_per_token ? format_bytes(static_cast<int64_t>(*point.bytes_per_token)) : "",
                    point.tokens_per_s ? fmt::format("{:.2f}", *point.tokens_per_s) : "");
  }
  text += fmt::format("\n{:<12} {:>12} {:>8} {:>9} {:>8} {:>12}\n", "in hindsight", "", "slots", "of all, %",
                      "Belady,%", "fixed set,%");
  for (const SweepBound& bound : figures.bounds) {
    text += fmt::format("{:<12} {:>12} {:>8} {:>9.1f} {:>8.1f} {:>12.1f}\n", "", "", bound.n_slots,
                        100 * bound.slot_share, 100 * bound.belady_hit_rate, 100 * bound.static_hit_rate);
  }
  if (figures.n_tokens > 0) {
    text += fmt::format(
        "\n{} tokens after the prompt at each point, measured and counted; slots are filled with the first "
        "experts of "
        "every\nlayer before. In hindsight: computed from the recorded turns, prompt included, from an empty "
        "start.\n",
        figures.n_tokens);
  }
  for (const Plot& plot : plots_of(figures)) text += "\n" + render_text(plot);
  return text;
}

Json to_json(const SweepFigures& figures) {
  Json json = {{"experts", figures.n_experts}, {"generate", figures.n_tokens}, {"points", Json::array()}};
  for (const SweepPoint& point : figures.points) {
    json["points"].push_back(
        {{"policy", name_of(point.policy)},
         {"budget_bytes", point.budget_bytes > 0 ? Json(point.budget_bytes) : Json()},
         {"slots", point.n_slots},
         {"slot_share", point.slot_share},
         {"hit_rate", point.hit_rate},
         {"bytes_per_token", point.bytes_per_token ? Json(*point.bytes_per_token) : Json()},
         {"tokens_per_s", point.tokens_per_s ? Json(*point.tokens_per_s) : Json()}});
  }
  for (const SweepBound& bound : figures.bounds) {
    json["in_hindsight"].push_back({{"slots", bound.n_slots},
                                    {"slot_share", bound.slot_share},
                                    {"belady_hit_rate", bound.belady_hit_rate},
                                    {"static_hit_rate", bound.static_hit_rate}});
  }
  return json;
}

std::vector<Plot> plots_of(const SweepFigures& figures) {
  Plot hits = {
      .title = "hit rate, %", .x_label = "experts in memory, %", .y_label = "hit rate, %", .lines = {}};
  Plot rates = {.title = "tokens/s", .x_label = "experts in memory, %", .y_label = "tokens/s", .lines = {}};
  for (const SweepPoint& point : figures.points) {
    const std::string name = name_of(point.policy);
    const auto line_of = [&](Plot& plot) -> Plot::Line& {
      const auto found = std::find_if(plot.lines.begin(), plot.lines.end(),
                                      [&](const Plot::Line& line) { return line.name == name; });
      return found != plot.lines.end() ? *found : plot.lines.emplace_back(Plot::Line{name, {}});
    };
    line_of(hits).points.emplace_back(100 * point.slot_share, 100 * point.hit_rate);
    if (point.tokens_per_s) line_of(rates).points.emplace_back(100 * point.slot_share, *point.tokens_per_s);
  }
  Plot::Line belady = {"Belady", {}};
  for (const SweepBound& bound : figures.bounds)
    belady.points.emplace_back(100 * bound.slot_share, 100 * bound.belady_hit_rate);
  hits.lines.push_back(std::move(belady));
  if (rates.lines.empty()) return {hits};
  return {hits, rates};
}

}  // namespace soli::cli
