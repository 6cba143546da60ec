#include "cli/bench_measure.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "cli/output.h"
#include "cli/progress.h"
#include "cli/workbench.h"
#include "observe/step_work.h"

namespace soli::cli {
namespace {

/// Leaves out of a default list what does not fit, and refuses it in a list that somebody gave.
Status keep_what_fits(const char* flag, bool given, std::vector<int64_t>& values, int64_t most,
                      const std::function<std::string()>& why) {
  const auto too_large = [&](int64_t value) { return value > most; };
  std::vector<int64_t> left_out;
  std::copy_if(values.begin(), values.end(), std::back_inserter(left_out), too_large);
  if (left_out.empty()) return {};
  if (given) return fail(ErrorKind::kInvalidArgument, "{} {}: {}", flag, left_out.front(), why());
  std::erase_if(values, too_large);
  print_note("soli: left out {} {}: {}\n", flag, fmt::join(left_out, ","), why());
  return {};
}

Status check_lists(const Session& session, BenchOptions& options) {
  const int64_t context = session.context_length();
  const int64_t chunk_rows = options.model.engine.chunk_rows;
  SOLI_RETURN_IF_ERROR(keep_what_fits("--prompt", options.prompts_given, options.prompts, context - 1, [&] {
    return fmt::format("with its first token, the context has room for {} (-c)", context);
  }));
  SOLI_RETURN_IF_ERROR(
      keep_what_fits("--sequences", options.sequences_given, options.sequences, chunk_rows,
                     [&] { return fmt::format("a step has room for {} rows (-b)", chunk_rows); }));
  if (options.prompts.empty() && options.sequences.empty()) {
    return fail(ErrorKind::kInvalidArgument, "nothing is left to measure (--prompt, --sequences)");
  }
  for (const int64_t n : options.sequences) {
    const int64_t needed = Workbench::decode_positions(n, options.generate, chunk_rows);
    if (needed <= context) continue;
    return fail(ErrorKind::kInvalidArgument,
                "--generate {}: {} sequences need {} positions each; the context has room for {} (-c)",
                options.generate, n, needed, context);
  }
  return {};
}

int64_t in_whole_pages(int64_t n_positions) { return KvPageTable::pages_for(n_positions) * kKvPagePositions; }

int64_t positions_at_once(const BenchOptions& options) {
  int64_t most = 0;
  for (const int64_t n : options.prompts) most = std::max(most, in_whole_pages(n + 1));
  for (const int64_t n : options.sequences) {
    const int64_t each = Workbench::decode_positions(n, options.generate, options.model.engine.chunk_rows);
    most = std::max(most, n * in_whole_pages(each));
  }
  return most;
}

/// One run of `bench`: the repetitions of all its figures.
class Bench {
 public:
  Bench(Session& session, const BenchOptions& options, const InterruptGuard& interrupt)
      : session_(session),
        options_(options),
        interrupt_(interrupt),
        workbench_(session, interrupt),
        work_(session.file(), session.runtime().kernels(), options.model.engine.activations,
              options.model.engine.kv_type),
        probe_(work_),
        progress_("measuring") {
    if (options.probe) session.engine().set_hooks({.probe = &probe_});
  }
  ~Bench() { session_.engine().set_hooks({}); }

  Result<BenchFigures> measure() {
    if (!options_.probe) return measure_work();
    show("the machine");
    Runtime& runtime = session_.runtime();
    SOLI_ASSIGN_OR_RETURN(const MachineInfo machine, describe_machine(runtime));
    ProbeFigures probe;
    SOLI_ASSIGN_OR_RETURN(probe.before, measure_machine(runtime, machine, options_.ceiling_seconds));
    SOLI_ASSIGN_OR_RETURN(BenchFigures figures, measure_work());
    show("the machine");
    SOLI_ASSIGN_OR_RETURN(probe.after, measure_machine(runtime, machine, options_.ceiling_seconds));
    if (interrupt_.interrupted()) return fail(ErrorKind::kCancelled, "interrupted");
    probe.work = std::move(probed_);
    figures.void_reasons =
        probe.void_reasons(find_known_machine(machine, runtime.kernels().isa, runtime.team().size()));
    figures.probe = std::move(probe);
    return figures;
  }

 private:
  Result<BenchFigures> measure_work() {
    BenchFigures figures;
    for (const int64_t n : options_.prompts) {
      SOLI_ASSIGN_OR_RETURN(const PrefillFigures prefill, measure_prefill(n));
      figures.prefill.push_back(prefill);
    }
    for (const int64_t n : options_.sequences) {
      SOLI_ASSIGN_OR_RETURN(const DecodeFigures decode, measure_decode(n));
      figures.decode.push_back(decode);
    }
    return figures;
  }

  Result<PrefillFigures> measure_prefill(int64_t n_tokens) {
    const auto n = static_cast<double>(n_tokens);
    show(fmt::format("prefill {}", n_tokens));
    SOLI_RETURN_IF_ERROR(workbench_.prefill(n_tokens));  // warms up
    probe_.take();
    const CacheCounters before = memory_counters();
    std::vector<double> rates;
    for (int64_t i = 0; i < options_.repetitions; ++i) {
      SOLI_ASSIGN_OR_RETURN(const double seconds, workbench_.prefill(n_tokens));
      rates.push_back(n / seconds);
      ++n_done_;
      show(fmt::format("prefill {}", n_tokens));
    }
    probed_.push_back({ProbedWork::Kind::kPrefill, n_tokens, probe_.take()});
    return PrefillFigures{
        .n_tokens = n_tokens,
        .tokens_per_s = summary_of(std::move(rates)),
        .operations_per_token = static_cast<double>(work_.weight_operations(n_tokens, 1)) / n,
        .memory = {memory_counters() - before, options_.repetitions}};
  }

  Result<DecodeFigures> measure_decode(int64_t n_sequences) {
    std::vector<double> token_rates;
    std::vector<double> step_rates;
    double touched = 0;
    double kv = 0;
    PhaseTotals probed;
    CacheCounters memory;
    for (int64_t i = 0; i < options_.repetitions; ++i) {
      show(fmt::format("decode of {}", n_sequences));
      SOLI_ASSIGN_OR_RETURN(DecodeBatch batch, workbench_.start_decode(n_sequences));
      const int64_t read_before = expert_bytes_read();
      const CacheCounters memory_before = memory_counters();
      int64_t n_keys = 0;  // seen in a layer, over all layers
      probe_.take();       // of reading the prompts
      const Stopwatch watch;
      for (int64_t step = 0; step < options_.generate; ++step) {
        n_keys += batch.keys_seen(work_.spec());
        SOLI_RETURN_IF_ERROR(batch.step());
      }
      const double steps_per_s = static_cast<double>(options_.generate) / watch.seconds();
      probed += probe_.take();
      memory += memory_counters() - memory_before;
      step_rates.push_back(steps_per_s);
      token_rates.push_back(steps_per_s * static_cast<double>(n_sequences));
      touched += static_cast<double>(expert_bytes_read() - read_before);
      kv += static_cast<double>(n_keys * (work_.position_bytes() / work_.spec().n_layers));
      ++n_done_;
    }
    probed_.push_back({ProbedWork::Kind::kDecode, n_sequences, probed});
    const auto n_steps = static_cast<double>(options_.repetitions * options_.generate);
    return DecodeFigures{
        .n_sequences = n_sequences,
        .tokens_per_s = summary_of(std::move(token_rates)),
        .steps_per_s = summary_of(std::move(step_rates)),
        .touched_bytes_per_step = touched / n_steps + static_cast<double>(shared_bytes(n_sequences)),
        .kv_bytes_per_step = kv / n_steps,
        .memory = {memory, options_.repetitions * options_.generate}};
  }

  /// Bytes of the weights that every step of so many decoding rows reads: all but the routed experts.
  int64_t shared_bytes(int64_t n_rows) const {
    WorkByPhase work = {};
    work_.add_rows({.n_rows = n_rows, .n_wanted = n_rows}, work);
    return sum(work).weight_bytes;
  }

  CacheCounters memory_counters() const {
    const TieredExpertStore* const tiered = session_.tiered();
    return tiered == nullptr ? CacheCounters{} : sum(tiered->counters());
  }

  /// Of all experts that the store has given since the start.
  int64_t expert_bytes_read() const {
    int64_t bytes = 0;
    const ModelSpec& spec = session_.spec();
    for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
      if (!spec.is_moe_layer(layer)) continue;
      for (int64_t e = 0; e < spec.router.n_experts; ++e) {
        bytes += session_.experts().reads(layer, e) * work_.expert_bytes(layer, e);
      }
    }
    return bytes;
  }

  void show(const std::string& what) {
    const auto n_kinds = static_cast<int64_t>(options_.prompts.size() + options_.sequences.size());
    progress_.show(n_done_, n_kinds * options_.repetitions, what);
  }

  Session& session_;
  const BenchOptions& options_;
  const InterruptGuard& interrupt_;
  Workbench workbench_;
  const StepWork work_;
  PhaseProbe probe_;
  std::vector<ProbedWork> probed_;
  ProgressLine progress_;
  int64_t n_done_ = 0;  // repetitions
};

}  // namespace

double MemoryFigures::hit_rate() const {
  return counters.calls() == 0 ? 1
                               : static_cast<double>(counters.hits) / static_cast<double>(counters.calls());
}

double MemoryFigures::bytes_per_step() const {
  return n_steps == 0 ? 0 : static_cast<double>(counters.bytes_read()) / static_cast<double>(n_steps);
}

Status load_for_bench(Session& session, BenchOptions& options) {
  SOLI_RETURN_IF_ERROR(check_lists(session, options));
  const int64_t n_most = options.sequences.empty() ? 1 : std::ranges::max(options.sequences);
  EngineOptions engine = options.model.engine;
  engine.max_sequences = n_most;
  engine.max_queued = n_most;
  engine.max_logit_rows = n_most;
  SOLI_RETURN_IF_ERROR(session.load(engine, positions_at_once(options)));
  return session.fill_slots();
}

Result<BenchFigures> measure_bench(Session& session, const BenchOptions& options,
                                   const InterruptGuard& interrupt) {
  return Bench(session, options, interrupt).measure();
}

}  // namespace soli::cli
