#include "cli/bench_watching.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "cli/bench_report.h"
#include "cli/progress.h"
#include "cli/workbench.h"
#include "observe/activation_recorder.h"
#include "ops/expert_meter.h"

namespace soli::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kBlockTokens = WatchingFigures::kBlockTokens;
constexpr int64_t kMaxPairsOfSequence = 8;  // then a new one begins: what is far from its prompt takes longer
constexpr uint64_t kOrderSeed = 5;

/// Pairs that one sequence has room for in the context.
int64_t pairs_of_sequence(const Session& session) {
  const int64_t chunk_rows = session.options().engine.chunk_rows;
  const int64_t left = session.context_length() - Workbench::decode_positions(1, 0, chunk_rows);
  return std::min(kMaxPairsOfSequence, left / (2 * kBlockTokens));
}

int64_t positions_of_sequence(const Session& session) {
  return Workbench::decode_positions(1, pairs_of_sequence(session) * 2 * kBlockTokens,
                                     session.options().engine.chunk_rows);
}

const char* watcher_name(Watcher watcher) { return watcher == Watcher::kMeter ? "meter" : "recorder"; }

/// Decodes in blocks, with and without a watcher.
class WatchingBench {
 public:
  WatchingBench(Session& session, Watcher watcher, const InterruptGuard& interrupt)
      : session_(session),
        watcher_(watcher),
        workbench_(session, interrupt),
        meter_(session.spec().n_layers, session.spec().router.n_experts) {}
  ~WatchingBench() { watch(false); }

  /// The next pair, in a new sequence where the present one has no room. Of two pairs in a row, one begins
  /// with the watcher and the other without it, in random order, so that neither drift nor the growing
  /// context favours a side.
  Result<TimedPair> next() {
    if (n_pairs_ % pairs_of_sequence(session_) == 0) {
      batch_.reset();
      SOLI_ASSIGN_OR_RETURN(DecodeBatch batch, workbench_.start_decode(1));
      batch_.emplace(std::move(batch));
    }
    with_first_ = n_pairs_ % 2 == 0 ? rng_.next_below(2) == 0 : !with_first_;
    ++n_pairs_;
    TimedPair pair;
    for (const bool with : {with_first_, !with_first_}) {
      SOLI_ASSIGN_OR_RETURN((with ? pair.with_s : pair.without_s), block_seconds(with));
    }
    return pair;
  }

 private:
  void watch(bool on) {
    if (watcher_ == Watcher::kMeter) return session_.set_expert_meter(on ? &meter_ : nullptr);
    session_.engine().set_hooks({.observer = on ? &recorder_ : nullptr});
  }

  Result<double> block_seconds(bool with_watcher) {
    watch(with_watcher);
    const Stopwatch watch;
    for (int64_t i = 0; i < kBlockTokens; ++i) SOLI_RETURN_IF_ERROR(batch_->step());
    return watch.seconds();
  }

  Session& session_;
  const Watcher watcher_;
  Workbench workbench_;
  ActivationRecorder recorder_;
  ExpertMeter meter_;
  std::optional<DecodeBatch> batch_;
  Rng rng_{kOrderSeed};
  bool with_first_ = false;
  int64_t n_pairs_ = 0;
};

}  // namespace

Status load_for_watching(Session& session, const BenchOptions& options) {
  if (!session.spec().is_moe()) {
    return fail(ErrorKind::kInvalidArgument, "--watching: this is a dense model, which makes no choices");
  }
  if (pairs_of_sequence(session) < 1) {
    return fail(ErrorKind::kInvalidArgument,
                "--watching: {} positions are needed; the context has room for {} (-c)",
                Workbench::decode_positions(1, 2 * kBlockTokens, options.model.engine.chunk_rows),
                session.context_length());
  }
  EngineOptions engine = options.model.engine;
  engine.max_sequences = 1;
  engine.max_logit_rows = 1;
  return session.load(engine, positions_of_sequence(session));
}

Result<WatchingFigures> measure_watching(Session& session, const BenchOptions& options,
                                         const InterruptGuard& interrupt) {
  WatchingBench bench(session, options.watcher, interrupt);
  ProgressLine progress("measuring");
  std::vector<TimedPair> pairs;
  std::vector<double> with;
  std::vector<double> without;
  SOLI_RETURN_IF_ERROR(bench.next());  // warms up
  while (static_cast<int64_t>(pairs.size()) < options.pairs) {
    progress.show(static_cast<int64_t>(pairs.size()), options.pairs, "pairs");
    SOLI_ASSIGN_OR_RETURN(const TimedPair pair, bench.next());
    pairs.push_back(pair);
    with.push_back(static_cast<double>(kBlockTokens) / pair.with_s);
    without.push_back(static_cast<double>(kBlockTokens) / pair.without_s);
  }
  return WatchingFigures{.watcher = options.watcher,
                         .ratio = paired_ratio(pairs),
                         .with_tokens_per_s = summary_of(std::move(with)),
                         .without_tokens_per_s = summary_of(std::move(without))};
}

std::string render_text(const WatchingFigures& figures) {
  const PairedRatio& ratio = figures.ratio;
  return fmt::format(
      "\n{:<31} {}\ntokens/s without it             {}\n"
      "time with / without             {:.5f} ({:.5f} to {:.5f} with 95 % confidence)\n"
      "\n{} pairs of {} tokens with and {} without, one sequence, in random order; tokens/s: median "
      "(range).\n",
      fmt::format("tokens/s with the {}", watcher_name(figures.watcher)),
      measured_text(figures.with_tokens_per_s), measured_text(figures.without_tokens_per_s), ratio.ratio,
      ratio.low, ratio.high, ratio.n_pairs, kBlockTokens, kBlockTokens);
}

Json to_json(const WatchingFigures& figures) {
  const PairedRatio& ratio = figures.ratio;
  return {{"watcher", watcher_name(figures.watcher)},
          {"pairs", ratio.n_pairs},
          {"block_tokens", kBlockTokens},
          {"time_ratio", ratio.ratio},
          {"confidence", 0.95},
          {"time_ratio_low", ratio.low},
          {"time_ratio_high", ratio.high},
          {"with_tokens_per_s", measured_json(figures.with_tokens_per_s)},
          {"without_tokens_per_s", measured_json(figures.without_tokens_per_s)}};
}

}  // namespace soli::cli
