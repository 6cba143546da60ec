#include "cli/machine_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.h"
#include "base/utf8.h"

namespace soli::cli {
namespace {

using Json = nlohmann::ordered_json;

/// "12.3 (11.9 to 12.4)": the median and the range of the passes.
std::string machine_figure_text(const Measured& measured) {
  return fmt::format("{:.1f} ({:.1f} to {:.1f})", measured.median / 1e9, measured.min / 1e9,
                     measured.max / 1e9);
}

Json measured_json(const Measured& measured) {
  return {
      {"median", measured.median}, {"min", measured.min}, {"max", measured.max}, {"passes", measured.passes}};
}

Json by_threads_json(const MeasuredByThreads& measured) {
  return {{"one_thread", measured_json(measured.one)}, {"all_threads", measured_json(measured.all)}};
}

}  // namespace

std::string render_text(const MachineInfo& machine, const MachineCeilings& ceilings) {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<24} {}\n", name, value);
  };
  line("processor", printable(machine.cpu_model));
  line("cores", fmt::format("{} in {} packages, {} logical, {} usable by this process", machine.cores,
                            machine.packages, machine.logical_cpus, machine.usable_cpus));
  line("NUMA nodes", std::to_string(machine.numa_nodes));
  line("instruction set", fmt::format("{} (available: {})", ceilings.isa, fmt::join(machine.isas, ", ")));
  for (const CacheLevel& cache : machine.caches) {
    line(fmt::format("L{} cache", cache.level),
         fmt::format("{} x {}", cache.count, format_bytes(cache.bytes)));
  }
  line("memory", machine.ram_bytes > 0 ? format_bytes(machine.ram_bytes) : "unknown");
  text += fmt::format("\nmeasured just now: median (range), with 1 thread and with {}{}\n",
                      ceilings.n_threads, ceilings.pinned ? " (pinned)" : "");
  const auto measured = [&](std::string_view name, const MeasuredByThreads& figure) {
    text += fmt::format("{:<24} {:<26} {:<26}\n", name, machine_figure_text(figure.one),
                        machine_figure_text(figure.all));
  };
  measured("memory read, GB/s", ceilings.read_bytes_per_s);
  measured("f32 peak, Gop/s", ceilings.f32_operations_per_s);
  measured("bf16 dot peak, Gop/s", ceilings.bf16_operations_per_s);
  measured("8-bit dot peak, Gop/s", ceilings.int8_operations_per_s);
  text +=
      fmt::format("Reads go over {} of memory; a multiplication with its addition counts as 2 operations.\n",
                  format_bytes(ceilings.slab_bytes));
  return text;
}

nlohmann::ordered_json to_json(const MachineInfo& machine, const MachineCeilings& ceilings) {
  Json caches = Json::array();
  for (const CacheLevel& cache : machine.caches) {
    caches.push_back({{"level", cache.level}, {"bytes", cache.bytes}, {"count", cache.count}});
  }
  return {{"processor", machine.cpu_model},
          {"vendor", machine.cpu_vendor},
          {"family", machine.cpu_family},
          {"packages", machine.packages},
          {"cores", machine.cores},
          {"logical_cpus", machine.logical_cpus},
          {"usable_cpus", machine.usable_cpus},
          {"numa_nodes", machine.numa_nodes},
          {"ram_bytes", machine.ram_bytes},
          {"caches", caches},
          {"isa", ceilings.isa},
          {"isas_available", machine.isas},
          {"measured", to_json(ceilings)}};
}

nlohmann::ordered_json to_json(const MachineCeilings& ceilings) {
  return {{"threads", ceilings.n_threads},
          {"pinned", ceilings.pinned},
          {"slab_bytes", ceilings.slab_bytes},
          {"read_bytes_per_s", by_threads_json(ceilings.read_bytes_per_s)},
          {"f32_operations_per_s", by_threads_json(ceilings.f32_operations_per_s)},
          {"bf16_operations_per_s", by_threads_json(ceilings.bf16_operations_per_s)},
          {"int8_operations_per_s", by_threads_json(ceilings.int8_operations_per_s)}};
}

}  // namespace soli::cli
