#include "cli/memory_options.h"

#include <array>
#include <utility>

#include "base/units.h"
#include "cli/flags.h"
#include "experts/cache_aware_router.h"
#include "experts/router_predictor.h"
#include "io/available_memory.h"

namespace soli::cli {
namespace {

constexpr std::array<std::pair<const char*, CachePolicyKind>, 5> kPolicyNames = {
    {{"auto", CachePolicyKind::kAuto},
     {"lru", CachePolicyKind::kLru},
     {"lfu", CachePolicyKind::kLfu},
     {"least-stale", CachePolicyKind::kLeastStale},
     {"shares", CachePolicyKind::kShares}}};
constexpr std::array<std::pair<const char*, PrefetchGate::Mode>, 3> kPrefetchModes = {
    {{"auto", PrefetchGate::Mode::kAuto},
     {"off", PrefetchGate::Mode::kOff},
     {"always", PrefetchGate::Mode::kAlways}}};
constexpr int64_t kMostDepth = 64;

void add_limit(CLI::App& app, MemoryOptions& options) {
  const auto set = [&options](const std::string& text) {
    options.limit_bytes.reset();
    if (text == "auto") return;
    const Result<int64_t> bytes = parse_bytes("--memory", text);
    if (!bytes) throw CLI::ValidationError(bytes.error().message + ", or 'auto'");
    options.limit_bytes = *bytes;
  };
  app.add_option_function<std::string>(
         "--memory", set,
         "Memory that the whole process may take, such as 12GiB; experts that do not fit are read from the "
         "disk when they are called; auto: nine tenths of what the machine and its control groups have left")
      ->type_name("BYTES|auto")
      ->default_str("auto");
}

template <typename Names, typename Value>
const char* name_in(const Names& names, Value value) {
  for (const auto& [name, named] : names) {
    if (named == value) return name;
  }
  return "?";
}

}  // namespace

void add_memory_options(CLI::App& app, MemoryOptions& options) {
  add_limit(app, options);
  add_choice<CachePolicyKind>(
      app, "--cache-policy", options.policy, {kPolicyNames.begin(), kPolicyNames.end()},
      "Which expert leaves the memory for another one; auto: the policy that would have "
      "done best lately");
  add_choice<PrefetchGate::Mode>(
      app, "--prefetch", options.prefetch, {kPrefetchModes.begin(), kPrefetchModes.end()},
      "Read experts ahead that the next layer's router is expected to call; auto: as far as it pays");
  add_integer(app, "--prefetch-layers", options.prefetch_layers, {1, RouterPredictor::kMostAhead},
              "Layers to look ahead");
  add_integer(app, "--io-depth", options.io_depth, {0, kMostDepth},
              "Reads of experts in flight; 0: what a short measurement of the disk finds best");
  add_number(app, "--prefer-cached", options.preference, {1, CacheAwareRouter::kMostPreference},
             "LOSSY: the router prefers experts in memory, each as if it were F times as probable; 1: exact");
  add_path(app, "--twin", options.twin_path,
           "LOSSY: a GGUF of the same model in fewer bits; its experts stand in for those that are not in "
           "memory");
}

const char* name_of(CachePolicyKind policy) { return name_in(kPolicyNames, policy); }
const char* name_of(PrefetchGate::Mode mode) { return name_in(kPrefetchModes, mode); }

Result<MemoryLimit> memory_limit(const MemoryOptions& options) {
  if (options.limit_bytes) return MemoryLimit{*options.limit_bytes, "--memory"};
  SOLI_ASSIGN_OR_RETURN(const AvailableMemory available, available_memory());
  return MemoryLimit{available.bytes / 10 * 9, "nine tenths of what " + available.limited_by + " has left"};
}

}  // namespace soli::cli
