#include "cli/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "base/log.h"
#include "base/slab.h"
#include "base/units.h"
#include "experts/expert_biases.h"
#include "experts/expert_loader.h"
#include "experts/expert_slots.h"
#include "experts/router_predictor.h"

namespace soli::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDefaultDepth = 16;
constexpr int kLeastDepth = 8;          // so that reads go on while a step computes
constexpr double kProbeSeconds = 0.08;  // per depth
constexpr int64_t kMostRows = 4096;
constexpr int64_t kRowsShare = 32;  // of the slots' memory that twice the rows may cost

/// Of the shard that holds the most.
std::optional<DiskFigures> probe_disk(const ExpertSource& source) {
  const auto& files = source.files();
  const auto largest = std::max_element(
      files.begin(), files.end(),
      [](const DirectFile& a, const DirectFile& b) { return a.file().size() < b.file().size(); });
  constexpr int64_t kLeastBytes = 256 * kMiB;  // else caches on the way answer, and it takes no time anyway
  if (largest->file().size() < kLeastBytes) return std::nullopt;
  Result<DiskFigures> figures = measure_disk(*largest, MatrixPieces::kPieceBytes, kProbeSeconds);
  if (figures) return *std::move(figures);
  spdlog::debug("the disk was not measured: {}", figures.error().message);
  return std::nullopt;
}

/// Of a router that calls all experts equally often: what is not in memory, as an expert or as a twin, is
/// read.
double uniform_bytes_per_token(const ModelSpec& spec, const ExpertSource& source,
                               std::span<const int64_t> capacities) {
  const double calls =
      static_cast<double>(spec.router.experts_per_token) / static_cast<double>(source.n_experts());
  if (source.has_twins()) {
    const int64_t n_missing = source.size() - std::reduce(capacities.begin(), capacities.end());
    return static_cast<double>(std::max<int64_t>(0, n_missing)) * calls *
           static_cast<double>(source.twin_bytes()) / static_cast<double>(source.size());
  }
  double bytes = 0;
  for (size_t f = 0; f < capacities.size(); ++f) {
    const ExpertForm& form = source.forms()[f];
    bytes += static_cast<double>((form.n_experts - capacities[f]) * form.bytes) * calls;
  }
  return bytes;
}

tl::unexpected<Error> too_small(const MemoryLimit& limit, int64_t least, const std::string& parts) {
  return fail(ErrorKind::kLimit,
              "--memory: {} ({}) is too small: at least {}B ({}) are needed: {}; a shorter context (-c) or "
              "smaller steps (-b) need less",
              format_bytes(limit.bytes), limit.origin, least, format_bytes(least), parts);
}

/// What a plan is made for.
struct Planned {
  const ModelFile& file;
  const ModelFile* twins;
  Runtime& runtime;
  const MemoryOptions& options;

  Result<ExpertSource> source() const { return ExpertSource::create(file, runtime.kernels(), twins); }
};

/// The tiers of a plan whose disk is known.
Result<TiersPlan> size_tiers(const Planned& planned, const EngineOptions& engine, const MemoryPlan& plan) {
  const ModelFile& file = planned.file;
  SOLI_ASSIGN_OR_RETURN(const ExpertSource source, planned.source());
  TiersPlan tiers = *plan.tiers;
  const int64_t buffers = ExpertLoader::bytes_needed(source, {.depth = tiers.io_depth});
  const int64_t prefetch =
      planned.options.prefetch == PrefetchGate::Mode::kOff
          ? 0
          : Slab::charged_bytes(RouterPredictor::bytes_needed(file.spec(), engine.workspace_limits()));
  const int64_t biases = Slab::charged_bytes(ExpertBiases::bytes_needed(file));
  tiers.fixed_bytes = plan.need.total() - plan.need.experts + biases + buffers + prefetch;
  const int64_t least_slots = ExpertSlots::least_bytes(source);
  if (tiers.fixed_bytes + least_slots > plan.limit.bytes) {
    return too_small(
        plan.limit, tiers.fixed_bytes + least_slots,
        fmt::format(
            "weights {}, expert slots {}, read buffers {}, activations {}, keys and values {}, program {}",
            format_bytes(plan.need.shared_weights), format_bytes(least_slots),
            format_bytes(buffers + prefetch), format_bytes(plan.need.activations), format_bytes(plan.need.kv),
            format_bytes(plan.need.process)));
  }
  const std::vector<int64_t> capacities =
      ExpertSlots::capacities(source, plan.limit.bytes - tiers.fixed_bytes);
  tiers.slot_bytes = ExpertSlots::charged_bytes(source, capacities);
  const auto twins = capacities.begin() + static_cast<std::ptrdiff_t>(source.first_twin_form());
  tiers.n_slots = std::reduce(capacities.begin(), twins);
  tiers.n_twin_slots = std::reduce(twins, capacities.end());
  tiers.n_experts = source.size();
  tiers.uniform_bytes_per_token = uniform_bytes_per_token(file.spec(), source, capacities);
  return tiers;
}

Result<TiersPlan> plan_tiers(const Planned& planned, const EngineOptions& engine, MemoryPlan plan) {
  const int64_t io_depth = planned.options.io_depth;
  plan.tiers.emplace().io_depth = io_depth > 0 ? static_cast<int>(io_depth) : kDefaultDepth;
  SOLI_ASSIGN_OR_RETURN(TiersPlan tiers, size_tiers(planned, engine, plan));
  if (io_depth > 0) return tiers;
  // Measured only once it is clear that the model can run.
  SOLI_ASSIGN_OR_RETURN(const ExpertSource source, planned.source());
  tiers.disk = probe_disk(source);
  if (!tiers.disk) return tiers;
  tiers.io_depth = std::clamp(tiers.disk->best_depth, kLeastDepth, kDefaultDepth);
  plan.tiers = tiers;
  return size_tiers(planned, engine, plan);
}

/// What makes the answers other than the model's own, and how to learn the price.
std::string describe_losses(const TiersPlan& tiers, const MemoryOptions& options) {
  std::string text = "LOSSY:";
  if (options.preference > 1) {
    text +=
        fmt::format(" the router prefers experts in memory, as if {:g} times as probable (--prefer-cached);",
                    options.preference);
  }
  if (!options.twin_path.empty()) {
    text += fmt::format(" what is not in memory is answered by {}, with {} slots of its own (--twin);",
                        options.twin_path, tiers.n_twin_slots);
  }
  return text + " answers depend on what was asked before; `soli eval --against exact` measures the price\n";
}

}  // namespace

int64_t MemoryPlan::planned_bytes() const {
  return tiers ? tiers->fixed_bytes + tiers->slot_bytes : need.total();
}

Result<MemoryPlan> plan_memory(const ModelFile& file, const ModelFile* twins, Runtime& runtime,
                               const EngineOptions& engine, const MemoryOptions& options,
                               const MemoryLimit& limit, int64_t n_positions, int64_t longest_prompt) {
  const Planned planned = {file, twins, runtime, options};
  MemoryPlan plan = {.limit = limit, .need = {}, .chunk_rows = engine.chunk_rows, .tiers = {}};
  SOLI_ASSIGN_OR_RETURN(plan.need, count_memory_need(file, runtime, engine, n_positions));
  plan.need.process += options.further_bytes;
  if (plan.need.total() <= limit.bytes && !options.force_tiers) return plan;
  if (!file.spec().is_moe()) return too_small(limit, plan.need.total(), plan.need.description());
  SOLI_ASSIGN_OR_RETURN(plan.tiers, plan_tiers(planned, engine, plan));
  EngineOptions longer = engine;
  while (plan.chunk_rows < std::min(longest_prompt, kMostRows)) {
    longer.chunk_rows = std::min(2 * plan.chunk_rows, kMostRows);
    SOLI_ASSIGN_OR_RETURN(MemoryNeed need, count_memory_need(file, runtime, longer, n_positions));
    need.process += options.further_bytes;
    if (need.total() - plan.need.total() > plan.tiers->slot_bytes / kRowsShare) break;
    plan.need = need;
    plan.chunk_rows = longer.chunk_rows;
    SOLI_ASSIGN_OR_RETURN(plan.tiers, size_tiers(planned, longer, plan));
  }
  return plan;
}

std::string describe(const MemoryPlan& plan, const MemoryOptions& options) {
  std::string text = fmt::format("memory: {} planned of {} ({}); ", format_bytes(plan.planned_bytes()),
                                 format_bytes(plan.limit.bytes), plan.limit.origin);
  if (!plan.tiers) {
    text += "all weights in memory\n";
    if (options.lossy())
      text += "soli: --prefer-cached and --twin have nothing to do: the answers are exact\n";
    return text;
  }
  const TiersPlan& tiers = *plan.tiers;
  text += fmt::format("{} slots for {} experts ({:.1f} %), policy {}, prefetch {}\n", tiers.n_slots,
                      tiers.n_experts,
                      100 * static_cast<double>(tiers.n_slots) / static_cast<double>(tiers.n_experts),
                      name_of(options.policy), name_of(options.prefetch));
  text += fmt::format("steps of up to {} rows; disk: {} reads in flight", plan.chunk_rows, tiers.io_depth);
  if (tiers.disk) text += fmt::format(", measured {:.2f} GB/s", tiers.disk->bytes_per_s / 1e9);
  const auto bytes = static_cast<int64_t>(tiers.uniform_bytes_per_token);
  text += fmt::format("; a router that calls all experts equally often would read {} per token",
                      format_bytes(bytes));
  if (tiers.disk) text += fmt::format(" ({:.2f} s)", tiers.uniform_bytes_per_token / tiers.disk->bytes_per_s);
  text += ": an expectation, and a bound for one that has favourites\n";
  return options.lossy() ? text + describe_losses(tiers, options) : text;
}

Json to_json(const MemoryPlan& plan, const MemoryOptions& options) {
  Json json = {{"limit_bytes", plan.limit.bytes},       {"limit_origin", plan.limit.origin},
               {"planned_bytes", plan.planned_bytes()}, {"batch_size", plan.chunk_rows},
               {"all_in_memory", !plan.tiers},          {"exact", !plan.tiers || !options.lossy()}};
  if (!plan.tiers) return json;
  const TiersPlan& tiers = *plan.tiers;
  json["slots"] = tiers.n_slots;
  json["experts"] = tiers.n_experts;
  json["slot_bytes"] = tiers.slot_bytes;
  json["policy"] = name_of(options.policy);
  json["prefetch"] = name_of(options.prefetch);
  json["prefetch_layers"] = options.prefetch_layers;
  json["io_depth"] = tiers.io_depth;
  if (options.preference > 1) json["prefer_cached"] = options.preference;
  if (!options.twin_path.empty()) {
    json["twin"] = options.twin_path;
    json["twin_slots"] = tiers.n_twin_slots;
  }
  json["expected_bytes_per_token_if_uniform"] = tiers.uniform_bytes_per_token;
  if (!tiers.disk) return json;
  Json by_depth = Json::array();
  for (const DiskFigures::AtDepth& at : tiers.disk->by_depth)
    by_depth.push_back({{"depth", at.depth}, {"bytes_per_second", at.bytes_per_s}});
  json["disk"] = {{"bytes_per_second", tiers.disk->bytes_per_s},
                  {"past_page_cache", tiers.disk->past_cache},
                  {"by_depth", std::move(by_depth)}};
  return json;
}

}  // namespace soli::cli
