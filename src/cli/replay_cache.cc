#include "cli/replay_cache.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/utf8.h"
#include "cli/flags.h"
#include "cli/memory_options.h"
#include "experts/belady.h"
#include "experts/cache_counters.h"
#include "io/file.h"
#include "observe/trace_accesses.h"

namespace soli::cli {
namespace {

constexpr std::array kPolicies = {CachePolicyKind::kLru, CachePolicyKind::kLfu, CachePolicyKind::kLeastStale,
                                  CachePolicyKind::kShares, CachePolicyKind::kAuto};
// How every SQLite database begins (sqlite.org/fileformat2.html, 1.3.1).
constexpr std::string_view kSqliteMagic("SQLite format 3\0", 16);

Result<bool> is_database(const std::string& path) {
  SOLI_ASSIGN_OR_RETURN(const File file, File::open(path));
  std::array<char, kSqliteMagic.size()> head;
  if (file.size() < static_cast<int64_t>(head.size())) return false;
  SOLI_RETURN_IF_ERROR(file.read(0, std::as_writable_bytes(std::span(head))));
  return std::string_view(head.data(), head.size()) == kSqliteMagic;
}

/// False where it is neither.
bool parse_slot_count(std::string_view text, SlotCount& count) {
  const bool is_percent = text.ends_with('%');
  if (is_percent) text.remove_suffix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number > 0)) return false;
  if (is_percent) {
    count = {.n = 0, .share = number / 100};
    return number <= 100;
  }
  count = {.n = static_cast<int64_t>(std::min(number, 1e15)), .share = 0};
  return std::isfinite(number) && number == std::floor(number);
}

Result<AccessTrace> turns_of(const CacheReplay& replay) {
  SOLI_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(replay.trace));
  SOLI_ASSIGN_OR_RETURN(AccessTrace turns, accesses_of(reader, replay.request, replay.prompt_rows));
  if (turns.n_visits() > 0) return turns;
  return fail(ErrorKind::kInvalidArgument, "{}: has no token{} that was computed", replay.trace,
              replay.request < 0 ? "" : fmt::format(" of request {}", replay.request));
}

CachePoint measure_point(const AccessTrace& turns, int64_t n_slots, CachePolicyKind asked) {
  CachePoint point = {.n_slots = n_slots,
                      .slot_share = share(n_slots, turns.n_layers() * turns.n_experts()),
                      .policies = {},
                      .belady = belady_counts(turns, n_slots),
                      .fixed = best_static_counts(turns, n_slots)};
  for (const CachePolicyKind policy : compared_policies(asked))
    point.policies.emplace_back(policy, simulate(turns, policy, n_slots));
  return point;
}

}  // namespace

int64_t SlotCount::of(int64_t n_experts) const {
  if (n > 0) return n;
  return std::max<int64_t>(1, static_cast<int64_t>(share * static_cast<double>(n_experts)));
}

std::vector<SlotCount> parse_slots(const std::string& names, const std::string& text) {
  std::vector<SlotCount> counts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    SlotCount count;
    if (!parse_slot_count(std::string_view(text).substr(begin, end - begin), count) ||
        counts.size() == kMaxListed) {
      throw CLI::ValidationError(
          names, fmt::format("'{}' is not a list of at most {} numbers of experts, such as 96, and shares of "
                             "all, above 0% and at most 100%, such as 12.5%",
                             printable(text), kMaxListed));
    }
    counts.push_back(count);
    begin = end + 1;
  }
  return counts;
}

std::vector<CachePolicyKind> compared_policies(CachePolicyKind asked) {
  if (asked != CachePolicyKind::kAuto) return {asked};
  return {kPolicies.begin(), kPolicies.end()};
}

CacheCounts simulate(const AccessTrace& turns, CachePolicyKind policy, int64_t n_slots) {
  const CacheShape shape = {.n_layers = turns.n_layers(), .n_experts = turns.n_experts(), .n_slots = n_slots};
  const std::unique_ptr<CachePolicy> made = make_cache_policy(policy, shape);
  CacheSimulator simulator(shape, *made);
  AccessTrace::Reader reader(turns);
  while (const LayerVisit* visit = reader.next()) simulator.visit(*visit);
  return simulator.total();
}

Result<AccessTrace> read_turns(const std::string& path, int64_t prompt_rows) {
  SOLI_ASSIGN_OR_RETURN(const bool is_trace, is_database(path));
  if (!is_trace) return AccessTrace::load(path);
  return turns_of({.trace = path, .prompt_rows = prompt_rows});
}

Result<CacheFigures> replay_cache(const CacheReplay& replay) {
  SOLI_ASSIGN_OR_RETURN(const AccessTrace turns, turns_of(replay));
  CacheFigures figures = {.trace = replay.trace,
                          .n_layers = turns.n_layers(),
                          .n_experts = turns.n_layers() * turns.n_experts(),
                          .n_turns = turns.n_visits(),
                          .n_dropped = turns.n_dropped(),
                          .prompt_rows = replay.prompt_rows,
                          .points = {}};
  for (const SlotCount& count : replay.slots) {
    if (count.of(figures.n_experts) <= figures.n_experts) continue;
    return fail(ErrorKind::kInvalidArgument,
                "--slots {}: the trace is of {} layers of {} experts; 1 to {} slots are allowed", count.n,
                turns.n_layers(), turns.n_experts(), figures.n_experts);
  }
  for (const SlotCount& count : replay.slots)
    figures.points.push_back(measure_point(turns, count.of(figures.n_experts), replay.policy));
  return figures;
}

std::string render_text(const CacheFigures& figures) {
  const CachePoint& first = figures.points.front();
  std::string text = fmt::format(
      "trace    {}\nturns    {} of {} layers with {} experts in all, up to {} rows of a prompt in one; "
      "{:.2f} "
      "experts asked for in each\n",
      printable(figures.trace, 4096), figures.n_turns, figures.n_layers, figures.n_experts,
      figures.prompt_rows, static_cast<double>(first.belady.requests) / static_cast<double>(figures.n_turns));
  if (figures.n_dropped > 0)
    text += fmt::format("dropped  {} turns at the end, for which there was no room\n", figures.n_dropped);
  text += fmt::format("\nhits, %\n{:>8} {:>9}", "slots", "of all, %");
  for (const auto& [policy, counts] : first.policies) text += fmt::format(" {:>11}", name_of(policy));
  text += fmt::format(" {:>11} {:>11}\n", "Belady", "fixed set");
  for (const CachePoint& point : figures.points) {
    text += fmt::format("{:>8} {:>9.1f}", point.n_slots, 100 * point.slot_share);
    for (const auto& [policy, counts] : point.policies)
      text += fmt::format(" {:>11.2f}", 100 * counts.rate());
    text += fmt::format(" {:>11.2f} {:>11.2f}\n", 100 * point.belady.rate(), 100 * point.fixed.rate());
  }
  return text;
}

std::string render_csv(const CacheFigures& figures) {
  std::string csv = "slots,slot_share,policy,hits,requests,hit_rate\n";
  for (const CachePoint& point : figures.points) {
    const auto add = [&](const char* policy, const CacheCounts& counts) {
      csv += fmt::format("{},{},{},{},{},{}\n", point.n_slots, point.slot_share, policy, counts.hits,
                         counts.requests, counts.rate());
    };
    for (const auto& [policy, counts] : point.policies) add(name_of(policy), counts);
    add("belady", point.belady);
    add("fixed-set", point.fixed);
  }
  return csv;
}

nlohmann::ordered_json to_json(const CacheFigures& figures) {
  using Json = nlohmann::ordered_json;
  Json json = {
      {"trace", figures.trace},   {"layers", figures.n_layers},         {"experts", figures.n_experts},
      {"turns", figures.n_turns}, {"dropped_turns", figures.n_dropped}, {"prompt_rows", figures.prompt_rows},
      {"points", Json::array()}};
  for (const CachePoint& point : figures.points) {
    Json rates = Json::object();
    for (const auto& [policy, counts] : point.policies) rates[name_of(policy)] = counts.rate();
    json["points"].push_back({{"slots", point.n_slots},
                              {"slot_share", point.slot_share},
                              {"requests", point.belady.requests},
                              {"hit_rates", std::move(rates)},
                              {"belady_hit_rate", point.belady.rate()},
                              {"static_hit_rate", point.fixed.rate()}});
  }
  return json;
}

}  // namespace soli::cli
