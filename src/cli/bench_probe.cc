#include "cli/bench_probe.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <optional>

#include "base/units.h"
#include "cli/machine_report.h"

namespace soli::cli {
namespace {

using Json = nlohmann::ordered_json;
using Out = std::back_insert_iterator<std::string>;

/// A phase, or the whole step, of one kind of work: means over its steps.
struct Row {
  std::string_view name;
  double seconds = 0;     // per step
  double time_share = 0;  // of the step
  int64_t n_steps = 0;
  Work work;  // of all steps
  Shares shares;

  double per_step(int64_t figure) const { return static_cast<double>(figure) / static_cast<double>(n_steps); }
  double bytes_per_s() const { return seconds > 0 ? per_step(work.bytes()) / seconds : 0; }
  double operations_per_s() const { return seconds > 0 ? per_step(work.all_operations()) / seconds : 0; }
};

/// The phases in their order, then the whole step. None without a step.
std::vector<Row> rows_of(const PhaseTotals& totals, const Ceilings& ceilings) {
  std::vector<Row> rows;
  if (totals.n_steps == 0) return rows;
  const auto add = [&](std::string_view name, int64_t ns, const Work& work) {
    const double seconds = static_cast<double>(ns) * 1e-9;
    rows.push_back(
        {.name = name,
         .seconds = seconds / static_cast<double>(totals.n_steps),
         .time_share = static_cast<double>(ns) / static_cast<double>(std::max<int64_t>(1, totals.step_ns())),
         .n_steps = totals.n_steps,
         .work = work,
         .shares = shares_of(work, seconds, ceilings)});
  };
  for (int phase = 0; phase < kPhases; ++phase) {
    const auto i = static_cast<size_t>(phase);
    add(soli::name_of(static_cast<Phase>(phase)), totals.ns[i], totals.work[i]);
  }
  add("step", totals.step_ns(), sum(totals.work));
  return rows;
}

Json row_json(const Row& row) {
  const auto operations = [&](Arithmetic arithmetic) {
    return row.per_step(row.work.operations(arithmetic));
  };
  return {{"phase", row.name},
          {"seconds", row.seconds},
          {"time_share", row.time_share},
          {"weight_bytes", row.per_step(row.work.weight_bytes)},
          {"kv_bytes", row.per_step(row.work.kv_bytes)},
          {"f32_operations", operations(Arithmetic::kF32)},
          {"bf16_operations", operations(Arithmetic::kBf16)},
          {"int8_operations", operations(Arithmetic::kInt8)},
          {"bytes_per_s", row.bytes_per_s()},
          {"operations_per_s", row.operations_per_s()},
          {"bandwidth_share", row.shares.bandwidth},
          {"peak_share", row.shares.peak}};
}

void render_work(Out out, const ProbedWork& work, const Ceilings& ceilings) {
  const std::vector<Row> rows = rows_of(work.totals, ceilings);
  if (rows.empty()) return;
  fmt::format_to(out, "\n{:<12} {:>10} {:>7} {:>10} {:>12} {:>9} {:>7} {:>10} {:>9} {:>7}\n", work.name(),
                 "ms/step", "time", "weights", "keys, values", "GB/s", "share", "op", "Gop/s", "share");
  for (const Row& row : rows) {
    fmt::format_to(
        out, "{:<12} {:>10.3f} {:>5.1f} % {:>10} {:>12} {:>9.2f} {:>5.1f} % {:>10} {:>9.1f} {:>5.1f} %\n",
        row.name, 1e3 * row.seconds, 100 * row.time_share,
        format_mean_bytes(row.per_step(row.work.weight_bytes)),
        format_mean_bytes(row.per_step(row.work.kv_bytes)), row.bytes_per_s() / 1e9,
        100 * row.shares.bandwidth, format_count(row.per_step(row.work.all_operations())),
        row.operations_per_s() / 1e9, 100 * row.shares.peak);
  }
}

}  // namespace

std::string ProbedWork::name() const {
  return fmt::format("{} {}", kind == Kind::kPrefill ? "prefill" : "decode of", size);
}

std::vector<std::string> ProbeFigures::void_reasons(const KnownMachine* known) const {
  std::vector<std::string> reasons = distrust(ceilings_of(before), ceilings_of(after), known);
  for (const ProbedWork& kind : work) {
    for (const Row& row : rows_of(kind.totals, ceilings())) {
      const std::optional<std::string> reason =
          distrust(fmt::format("{}, {}", kind.name(), row.name), row.shares);
      if (reason) reasons.push_back(*reason);
    }
  }
  return reasons;
}

std::string render_text(const ProbeFigures& probe) {
  std::string text;
  const Out out = std::back_inserter(text);
  const Ceilings first = ceilings_of(probe.before);
  const Ceilings second = ceilings_of(probe.after);
  const auto line = [&](const char* name, double before, double after) {
    fmt::format_to(out, "{:<24} {:>10.1f} {:>10.1f}\n", name, before / 1e9, after / 1e9);
  };
  const auto operations = [&](const char* name, Arithmetic arithmetic) {
    const auto i = static_cast<size_t>(arithmetic);
    line(name, first.operations_per_s[i], second.operations_per_s[i]);
  };
  fmt::format_to(out, "\n{:<24} {:>10} {:>10}\n", "ceilings", "before", "after");
  line("memory read, GB/s", first.read_bytes_per_s, second.read_bytes_per_s);
  operations("f32 peak, Gop/s", Arithmetic::kF32);
  operations("8-bit dot peak, Gop/s", Arithmetic::kInt8);
  for (const ProbedWork& work : probe.work) render_work(out, work, probe.ceilings());
  text +=
      "\nShares are of the larger of both ceilings: bytes of weights, keys and values per second of the "
      "memory read;\n"
      "and the time that the operations, f32, bf16 and 8-bit, take at their peaks, of the time that they "
      "took.\n";
  return text;
}

Json ceilings_json(const ProbeFigures& probe) {
  const Ceilings used = probe.ceilings();
  const auto operations = [&](Arithmetic arithmetic) {
    return used.operations_per_s[static_cast<size_t>(arithmetic)];
  };
  return {{"read_bytes_per_s", used.read_bytes_per_s},
          {"f32_operations_per_s", operations(Arithmetic::kF32)},
          {"bf16_operations_per_s", operations(Arithmetic::kBf16)},
          {"int8_operations_per_s", operations(Arithmetic::kInt8)},
          {"before", to_json(probe.before)},
          {"after", to_json(probe.after)}};
}

Json work_json(const ProbeFigures& probe) {
  Json json = Json::array();
  for (const ProbedWork& work : probe.work) {
    Json phases = Json::array();
    for (const Row& row : rows_of(work.totals, probe.ceilings())) phases.push_back(row_json(row));
    const bool is_prefill = work.kind == ProbedWork::Kind::kPrefill;
    json.push_back({{"work", is_prefill ? "prefill" : "decode"},
                    {is_prefill ? "tokens" : "sequences", work.size},
                    {"steps", work.totals.n_steps},
                    {"per_step", std::move(phases)}});
  }
  return json;
}

}  // namespace soli::cli
