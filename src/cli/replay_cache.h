#pragma once

// What an expert memory would hit on recorded choices, without a model.

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "experts/access_trace.h"
#include "experts/cache_policy.h"
#include "experts/cache_simulator.h"

namespace soli::cli {

/// A capacity as the command line names it: of so many experts, or of a share of them all.
struct SlotCount {
  int64_t n = 0;     // or 0
  double share = 0;  // above 0, at most 1; where n is 0

  /// Slots among so many experts; a share is at least one.
  int64_t of(int64_t n_experts) const;
};
/// "12.5%" or "96", several separated by commas. Throws CLI::ValidationError for anything else.
std::vector<SlotCount> parse_slots(const std::string& names, const std::string& text);

/// All policies where auto is asked for, else the one.
std::vector<CachePolicyKind> compared_policies(CachePolicyKind asked);

/// From an empty start.
CacheCounts simulate(const AccessTrace& turns, CachePolicyKind policy, int64_t n_slots);

/// The turns of a file that `run --access-trace` wrote, or --trace, which is told by how it begins; then
/// `prompt_rows` as in accesses_of(). Fails as reading either does.
Result<AccessTrace> read_turns(const std::string& path, int64_t prompt_rows);

struct CachePoint {
  int64_t n_slots = 0;
  double slot_share = 0;  // of all experts
  std::vector<std::pair<CachePolicyKind, CacheCounts>> policies;
  CacheCounts belady;  // in hindsight
  CacheCounts fixed;   // the best set that never changes
};

struct CacheFigures {
  std::string trace;        // its path
  int64_t n_layers = 0;     // with experts
  int64_t n_experts = 0;    // of all layers
  int64_t n_turns = 0;      // of layers
  int64_t n_dropped = 0;    // turns for which there was no room
  int64_t prompt_rows = 0;  // that share a step
  std::vector<CachePoint> points;
};

struct CacheReplay {
  std::string trace;
  int64_t request = -1;  // -1: all
  int64_t prompt_rows = 1;
  CachePolicyKind policy = CachePolicyKind::kAuto;
  std::vector<SlotCount> slots = {{0, 0.125}, {0, 0.25}, {0, 0.5}, {0, 0.75}};
};

/// Fails as reading the trace does, and with kInvalidArgument for more slots than there are experts, a
/// request that the trace does not have, and a trace without a token that was computed.
Result<CacheFigures> replay_cache(const CacheReplay& replay);

std::string render_text(const CacheFigures& figures);
/// slots,slot_share,policy,hits,requests,hit_rate: a line for each capacity and policy.
std::string render_csv(const CacheFigures& figures);
nlohmann::ordered_json to_json(const CacheFigures& figures);

}  // namespace soli::cli
