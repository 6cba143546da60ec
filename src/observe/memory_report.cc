#include "observe/memory_report.h"

#include <algorithm>

#include "base/units.h"
#include "experts/belady.h"

namespace soli {
namespace {

using Json = nlohmann::ordered_json;

double milliseconds(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

std::string row(const std::string& name, const CacheCounters& counters) {
  return fmt::format("{:>5}  {:>8} {:>6.1f} {:>9} {:>6} {:>7} {:>7} {:>10} {:>10} {:>9.1f}\n", name,
                     counters.calls(), 100 * share(counters.hits, counters.calls()), counters.prefetch_hits,
                     counters.late_prefetches, counters.wasted_prefetches, counters.demand_misses,
                     format_bytes(counters.demanded_bytes), format_bytes(counters.wasted_bytes),
                     milliseconds(counters.wait_ns));
}

Json counters_json(const CacheCounters& counters) {
  return {{"calls", counters.calls()},
          {"hits", counters.hits},
          {"prefetch_hits", counters.prefetch_hits},
          {"late_prefetches", counters.late_prefetches},
          {"wasted_prefetches", counters.wasted_prefetches},
          {"demand_misses", counters.demand_misses},
          {"demanded_bytes", counters.demanded_bytes},
          {"wasted_bytes", counters.wasted_bytes},
          {"promoted_bytes", counters.promoted_bytes},
          {"twin_uses", counters.twin_uses},
          {"wait_seconds", static_cast<double>(counters.wait_ns) * 1e-9},
          {"predicted", counters.predicted},
          {"predicted_called", counters.predicted_called}};
}

std::string disk_line(const MemoryReport& report) {
  std::string line =
      fmt::format("disk: {} read in {:.2f} s, {:.2f} GB/s", format_bytes(report.total.bytes_read()),
                  report.disk_seconds, report.achieved_bytes_per_s() / 1e9);
  if (report.disk_bytes_per_s) {
    line += fmt::format("; {:.0f} % of the {:.2f} GB/s measured at the start",
                        100 * report.achieved_bytes_per_s() / *report.disk_bytes_per_s,
                        *report.disk_bytes_per_s / 1e9);
  }
  if (report.n_tokens > 0) {
    line += fmt::format("; {} per token", format_bytes(report.total.bytes_read() / report.n_tokens));
  }
  return line + "\n";
}

std::string policy_lines(const MemoryReport& report) {
  std::string text = fmt::format("policy: {}", report.policy);
  if (report.ruling_policy != report.policy) text += fmt::format(", at the end {}", report.ruling_policy);
  text += fmt::format("; hit rate {:.1f} %", 100 * report.hit_rate());
  if (report.belady_hit_rate) {
    text += fmt::format(", a cache that knew the future {:.1f} %, the best fixed set {:.1f} %",
                        100 * *report.belady_hit_rate, 100 * *report.static_hit_rate);
  }
  text += "\n";
  for (const MemoryReport::Candidate& candidate : report.candidates)
    text +=
        fmt::format("  {:<14} would have hit {:.1f} % of late\n", candidate.name, 100 * candidate.hit_rate);
  if (report.n_visits_dropped > 0)
    text += fmt::format("  {} turns were not recorded: the trace was full\n", report.n_visits_dropped);
  return text;
}

std::string loss_lines(const MemoryReport& report) {
  std::string text;
  if (report.moved_share) {
    text += fmt::format("LOSSY: {:.2f} % of the calls went to an expert in memory, not the model's choice\n",
                        100 * *report.moved_share);
  }
  if (report.total.twin_uses > 0) {
    text += fmt::format("LOSSY: {:.2f} % of the experts of a step were twins; {} read to take their places\n",
                        100 * share(report.total.twin_uses, report.total.calls()),
                        format_bytes(report.total.promoted_bytes));
  }
  return text;
}

}  // namespace

double MemoryReport::hit_rate() const { return share(total.hits, total.calls()); }

MemoryReport make_memory_report(const TieredExpertStore& store, const AccessTrace* trace, int64_t n_tokens,
                                std::optional<double> disk_bytes_per_s) {
  MemoryReport report;
  report.n_slots = store.slots().total_capacity();
  report.n_experts = store.source().size();
  report.n_tokens = n_tokens;
  report.layers = store.counters();
  report.total = sum(report.layers);
  report.policy = store.policy().name();
  report.ruling_policy = store.policy().current();
  for (const PolicyRate& candidate : store.policy().candidates())
    report.candidates.push_back({std::string(candidate.name), candidate.hit_rate});
  report.prefetch_precision = share(report.total.predicted_called, report.total.predicted);
  report.prefetch_allowance = std::min(store.gate().allowance(), report.n_slots / 4);
  report.disk_seconds = store.disk_seconds();
  report.disk_bytes_per_s = disk_bytes_per_s;
  if (trace != nullptr && trace->n_visits() > 0) {
    report.belady_hit_rate = belady_counts(*trace, report.n_slots).rate();
    report.static_hit_rate = best_static_counts(*trace, report.n_slots).rate();
    report.n_visits_dropped = trace->n_dropped();
  }
  return report;
}

std::string render_text(const MemoryReport& report) {
  std::string text = fmt::format(
      "Memory report: {} slots for {} experts ({:.1f} %), {} tokens; counted and measured\n\n",
      report.n_slots, report.n_experts, 100 * share(report.n_slots, report.n_experts), report.n_tokens);
  text += "layer     calls  hit % prefetched   late  wasted  missed       read     wasted   wait ms\n";
  for (size_t layer = 0; layer < report.layers.size(); ++layer) {
    if (report.layers[layer].calls() > 0) text += row(fmt::format("{}", layer), report.layers[layer]);
  }
  text += row("all", report.total) + "\n" + policy_lines(report);
  if (report.total.predicted > 0) {
    text += fmt::format(
        "prefetch: {:.1f} % of {} predicted experts that were not in memory were called; reading "
        "{} ahead per turn at the end\n",
        100 * report.prefetch_precision, report.total.predicted, report.prefetch_allowance);
  }
  return text + disk_line(report) + loss_lines(report);
}

Json to_json(const MemoryReport& report) {
  Json json = {
      {"slots", report.n_slots},
      {"experts", report.n_experts},
      {"tokens", report.n_tokens},
      {"policy", report.policy},
      {"ruling_policy", report.ruling_policy},
      {"hit_rate", report.hit_rate()},
      {"belady_hit_rate", report.belady_hit_rate ? Json(*report.belady_hit_rate) : Json()},
      {"static_hit_rate", report.static_hit_rate ? Json(*report.static_hit_rate) : Json()},
      {"turns_not_recorded", report.n_visits_dropped},
      {"disk_seconds", report.disk_seconds},
      {"disk_bytes_per_second", report.achieved_bytes_per_s()},
      {"measured_disk_bytes_per_second", report.disk_bytes_per_s ? Json(*report.disk_bytes_per_s) : Json()},
      {"prefetch_precision", report.prefetch_precision},
      {"total", counters_json(report.total)}};
  if (report.moved_share) json["moved_share"] = *report.moved_share;
  for (const MemoryReport::Candidate& candidate : report.candidates)
    json["candidates"][candidate.name] = candidate.hit_rate;
  for (size_t layer = 0; layer < report.layers.size(); ++layer) {
    if (report.layers[layer].calls() == 0) continue;
    Json of_layer = counters_json(report.layers[layer]);
    of_layer["layer"] = layer;
    json["layers"].push_back(std::move(of_layer));
  }
  return json;
}

}  // namespace soli
