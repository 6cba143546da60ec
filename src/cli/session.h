#pragma once

#include <sched.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "cli/memory_plan.h"
#include "cli/model_options.h"
#include "engine/engine.h"
#include "experts/cache_aware_router.h"
#include "experts/heat_file.h"
#include "experts/local_executor.h"
#include "experts/resident_store.h"
#include "experts/router_predictor.h"
#include "experts/tiered_store.h"
#include "format/tokenizer.h"
#include "model/model.h"
#include "observe/memory_report.h"
#include "observe/trace_writer.h"
#include "ops/runtime.h"

namespace soli::cli {

/// One model, opened and then loaded, with the engine that runs it. Errors show before the long work starts:
/// open() reads no weights, so that a command can check its input against the model first.
class Session {
 public:
  /// Opens the file, reads the routing policy and makes the runtime (SOLI_ISA is obeyed). Fails for what
  /// ModelFile and Runtime refuse, and for a policy that this model cannot carry out.
  static Result<std::unique_ptr<Session>> open(const ModelOptions& options);

  const ModelFile& file() const { return model_ ? model_->file() : *file_; }
  const ModelSpec& spec() const { return file().spec(); }
  /// The file of --twin, or null.
  const ModelFile* twins() const { return twins_ ? &*twins_ : nullptr; }
  Runtime& runtime() { return *runtime_; }
  const ModelOptions& options() const { return options_; }
  /// As the options say: requests are given it.
  const RoutingPolicy& policy() const { return policy_; }
  /// Positions of one sequence.
  int64_t context_length() const;
  /// Made at the first call. Fails for a vocabulary that soli cannot read.
  Result<const Tokenizer*> tokenizer();

  /// Memory that the command itself needs beside the model. Before load().
  void set_further_bytes(int64_t bytes) { further_bytes_ = bytes; }

  /// Loads the weights and makes the engine, which has room for policy(). `engine` begins as a copy of
  /// options().engine. `n_positions` as
  /// in count_memory_need; `longest_prompt` are those that may be read at once, else all of them. Fails with
  /// kLimit where the memory limit is too small, naming the least that would fit.
  Status load(EngineOptions engine, int64_t n_positions, int64_t longest_prompt);
  Status load(const EngineOptions& engine, int64_t n_positions) {
    return load(engine, n_positions, n_positions);
  }
  /// Who is told how much of load() is done, on the thread that loads. Before it.
  void set_on_progress(std::function<void(int64_t done, int64_t total)> on_progress) {
    on_progress_ = std::move(on_progress);
  }
  Engine& engine() { return *engine_; }
  const Model& model() const { return *model_; }
  const ExpertStore& experts() const { return *store_; }
  /// The same where not all experts are in memory, or null.
  TieredExpertStore* tiered() { return tiered_; }
  const MemoryPlan& plan() const { return plan_; }
  /// True: the model's own choice and its own experts, false: as the memory options say. Between steps.
  void set_exact(bool exact);
  /// Who measures the experts, of as many layers and experts as the spec says; borrowed, null: nobody. After
  /// load(), between steps.
  void set_expert_meter(ExpertMeter* meter) { executor_->set_meter(meter); }
  /// What makes answers lossy, or null. Owned.
  const CacheAwareRouter* cache_aware_router() const { return cache_aware_ ? &*cache_aware_ : nullptr; }
  /// Fills the slots of an expert memory with some experts of every layer, so that what follows is not the
  /// filling. Nothing to do where all experts are in memory.
  Status fill_slots();
  /// Writes the files of --access-trace and --heat, where they are wanted. Fails where all experts are in
  /// memory, and there is no trace.
  Status save_records() const;
  /// Writes what --trace has recorded and not yet written, and tells how much that was; nothing to do without
  /// it, or the second time. From any thread. Fails where not all could be written.
  Status finish_trace();
  /// What the requests of the trace read, before it is finished; nothing to do without --trace.
  void label_trace(std::vector<TraceWindow> windows);
  /// What the expert memory did so far; null where all experts are in memory.
  std::optional<MemoryReport> memory_report() const;
  double load_seconds() const { return load_seconds_; }

 private:
  explicit Session(const ModelOptions& options) : options_(options) {}
  Status load_model();
  Status open_tiers();
  Status warm_up();
  HeatOwner heat_owner() const;
  Status predict_experts(const EngineOptions& engine);
  Status check_trace() const;
  Status start_trace(const EngineOptions& engine);
  Result<TraceShape> trace_shape(const EngineOptions& engine) const;
  int64_t trace_buffer_bytes(const TraceShape& shape) const;

  const ModelOptions options_;
  RoutingPolicy policy_;
  MemoryLimit limit_;
  int64_t further_bytes_ = 0;
  MemoryPlan plan_;
  std::unique_ptr<Runtime> runtime_;
  std::optional<ModelFile> file_;  // until load() gives it to the model
  std::optional<ModelFile> twins_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ExpertStore> store_;
  TieredExpertStore* tiered_ = nullptr;
  std::optional<AccessTrace> trace_;  // for the memory report
  std::optional<Heat> heat_;          // for the next run
  std::unique_ptr<RouterPredictor> predictor_;
  std::optional<CacheAwareRouter> cache_aware_;
  std::unique_ptr<LocalExecutor> executor_;
  std::unique_ptr<TraceWriter> trace_writer_;  // lives longer than the engine
  std::atomic<bool> trace_is_told_ = false;
  cpu_set_t cpus_ = {};  // that this process may use, whatever --pin says of its threads
  std::unique_ptr<Engine> engine_;
  std::function<void(int64_t done, int64_t total)> on_progress_ = [](int64_t, int64_t) {};
  double load_seconds_ = 0;
};

/// Largest resident set of this process so far.
int64_t peak_resident_bytes();

}  // namespace soli::cli
