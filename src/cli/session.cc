#include "cli/session.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/affinity.h"
#include "base/check.h"
#include "base/units.h"
#include "cli/output.h"
#include "cli/output_files.h"
#include "cli/progress.h"
#include "model/model_id.h"
#include "model/policy_text.h"

namespace soli::cli {
namespace {

// Some 16,000 tokens of a model of 48 layers that calls 8 experts in each; a part of kProcessBytes.
constexpr int64_t kMostTraceBytes = int64_t{16} << 20;
// Of saved heat: some long answers.
constexpr double kHeatHalfLifeTokens = 4096;

}  // namespace

Result<std::unique_ptr<Session>> Session::open(const ModelOptions& options) {
  std::unique_ptr<Session> session(new Session(options));
  SOLI_ASSIGN_OR_RETURN(session->cpus_, affinity_of(::pthread_self()));
  SOLI_ASSIGN_OR_RETURN(const std::string isa, requested_isa());
  SOLI_ASSIGN_OR_RETURN(session->policy_, read_policy(options.policy));
  SOLI_ASSIGN_OR_RETURN(session->limit_, memory_limit(options.memory));
  SOLI_ASSIGN_OR_RETURN(session->runtime_, Runtime::create({.n_threads = static_cast<int>(options.n_threads),
                                                            .memory_bytes = session->limit_.bytes,
                                                            .isa = isa,
                                                            .pin = options.pin}));
  SOLI_ASSIGN_OR_RETURN(session->file_, ModelFile::open(options.path));
  if (!options.memory.twin_path.empty()) {
    auto twins = ModelFile::open(options.memory.twin_path);
    if (!twins) return in_context("--twin", std::move(twins).error());
    session->twins_ = *std::move(twins);
  }
  SOLI_ASSIGN_OR_RETURN(session->policy_, announce_policy(session->policy_, session->spec()));
  SOLI_RETURN_IF_ERROR(check_output_files(*session, {}));
  SOLI_RETURN_IF_ERROR(session->check_trace());
  if (session->context_length() > session->spec().context_length) {
    print_note("soli: -c {} is beyond the {} positions that the model was trained for\n",
               session->context_length(), session->spec().context_length);
  }
  return session;
}

int64_t Session::context_length() const {
  return options_.engine.context_length > 0 ? options_.engine.context_length : spec().context_length;
}

Result<const Tokenizer*> Session::tokenizer() {
  if (tokenizer_ == nullptr) {
    SOLI_ASSIGN_OR_RETURN(tokenizer_, Tokenizer::from_gguf(file().gguf()));
  }
  return tokenizer_.get();
}

Status Session::load(EngineOptions engine, int64_t n_positions, int64_t longest_prompt) {
  SOLI_CHECK(model_ == nullptr, "a session loads once");
  const auto begin = std::chrono::steady_clock::now();
  make_room_for(policy_, engine);
  MemoryOptions memory = options_.memory;
  memory.further_bytes += further_bytes_;
  int64_t charged_by_trace = 0;
  if (!options_.trace.file.empty()) {
    SOLI_ASSIGN_OR_RETURN(const TraceShape shape, trace_shape(engine));
    memory.further_bytes += TraceWriter::bytes_needed(trace_buffer_bytes(shape));
    charged_by_trace = Slab::charged_bytes(trace_buffer_bytes(shape));
  }
  SOLI_ASSIGN_OR_RETURN(
      plan_, plan_memory(*file_, twins_ ? &*twins_ : nullptr, *runtime_, engine, memory, limit_, n_positions,
                         options_.chunk_rows_given ? 0 : longest_prompt));
  engine.chunk_rows = plan_.chunk_rows;
  engine.chunks_share_reads = plan_.tiers.has_value();
  print_note("{}", describe(plan_, options_.memory));
  SOLI_RETURN_IF_ERROR(runtime_->budget().charge("program", plan_.need.process - charged_by_trace));
  SOLI_RETURN_IF_ERROR(load_model());
  SOLI_ASSIGN_OR_RETURN(LocalExecutor executor, LocalExecutor::create(spec(), *store_, runtime_->budget(),
                                                                      engine.workspace_limits()));
  executor_ = std::make_unique<LocalExecutor>(std::move(executor));
  SOLI_RETURN_IF_ERROR(predict_experts(engine));
  if (tiered_ != nullptr && options_.memory.preference > 1) {
    cache_aware_.emplace(*model_, *tiered_, static_cast<float>(options_.memory.preference));
    executor_->set_control(&*cache_aware_);
  }
  SOLI_ASSIGN_OR_RETURN(engine_, Engine::create(*model_, *executor_, engine));
  SOLI_RETURN_IF_ERROR(start_trace(engine));
  load_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {};
}

Status Session::load_model() {
  ProgressLine progress("loading");
  const MemoryNeed& need = plan_.need;
  const int64_t total = need.shared_weights + (plan_.tiers ? 0 : need.experts);
  const auto show = [&](int64_t done) {
    progress.show(done, total);
    on_progress_(done, total);
  };
  SOLI_ASSIGN_OR_RETURN(
      model_, Model::load(*std::move(file_), *runtime_, [&](int64_t done, int64_t) { show(done); }));
  if (plan_.tiers) return open_tiers();
  SOLI_ASSIGN_OR_RETURN(
      store_, ResidentExpertStore::load(model_->file(), *runtime_,
                                        [&](int64_t done, int64_t) { show(need.shared_weights + done); }));
  return {};
}

Status Session::open_tiers() {
  SOLI_ASSIGN_OR_RETURN(std::unique_ptr<TieredExpertStore> tiered,
                        TieredExpertStore::create(model_->file(), *runtime_,
                                                  {.slot_bytes = plan_.tiers->slot_bytes,
                                                   .twins = twins_ ? &*twins_ : nullptr,
                                                   .policy = options_.memory.policy,
                                                   .prefetch = options_.memory.prefetch,
                                                   .loader = {.depth = plan_.tiers->io_depth}}));
  tiered_ = tiered.get();
  if (options_.memory.report || !options_.memory.trace_file.empty()) {
    trace_.emplace(tiered_->source().n_layers(), tiered_->source().n_experts(), kMostTraceBytes);
    tiered_->set_trace(&*trace_);
  }
  store_ = std::move(tiered);
  return warm_up();
}

void Session::set_exact(bool exact) {
  if (cache_aware_) {
    cache_aware_->set_preference(exact ? 1.0F : static_cast<float>(options_.memory.preference));
  }
  if (tiered_ != nullptr) tiered_->set_use_twins(!exact);
}

Status Session::predict_experts(const EngineOptions& engine) {
  if (tiered_ == nullptr || options_.memory.prefetch == PrefetchGate::Mode::kOff) return {};
  SOLI_ASSIGN_OR_RETURN(
      predictor_, RouterPredictor::create(*model_, *tiered_, engine.activations, engine.workspace_limits(),
                                          options_.memory.prefetch_layers));
  executor_->set_observer(predictor_.get());
  return {};
}

HeatOwner Session::heat_owner() const {
  const ExpertSource& source = tiered_->source();
  return {.model = fmt::format("{} ({})", spec().name, spec().architecture),
          .n_layers = source.n_layers(),
          .n_experts = source.n_experts()};
}

/// Reads first what was hot in the last run, if that left a file.
Status Session::warm_up() {
  const std::string& path = options_.memory.heat_file;
  if (path.empty()) return {};
  const HeatOwner owner = heat_owner();
  Result<Heat> saved = load_heat(path, owner);
  if (!saved && saved.error().kind != ErrorKind::kNotFound)
    return tl::unexpected<Error>(std::move(saved).error());
  heat_.emplace(saved ? *std::move(saved) : Heat(owner.n_layers, owner.n_experts, kHeatHalfLifeTokens));
  tiered_->set_heat(&*heat_);
  if (!saved) {
    print_note("warm-up: {} is not there yet; it will be written at the end\n", path);
    return {};
  }
  const auto begin = std::chrono::steady_clock::now();
  tiered_->prime(*heat_);
  ProgressLine progress("reading the hottest experts");
  SOLI_ASSIGN_OR_RETURN(const int64_t n,
                        tiered_->warm_up(hottest_first(*heat_),
                                         [&](int64_t done, int64_t total) { progress.show(done, total); }));
  print_note("warm-up: the {} hottest experts read in {:.2f} s\n", n,
             std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return {};
}

Status Session::save_records() const {
  const MemoryOptions& memory = options_.memory;
  if (heat_) {
    SOLI_RETURN_IF_ERROR(save_heat(memory.heat_file, heat_owner().model, *heat_));
  }
  if (!heat_ && !memory.heat_file.empty())
    print_note("soli: --heat: all experts are in memory; nothing was loaded or saved\n");
  if (memory.trace_file.empty()) return {};
  if (trace_) return trace_->save(memory.trace_file);
  return fail(
      ErrorKind::kInvalidArgument,
      "--access-trace {}: all experts are in memory, so there are no turns to record; --memory with less "
      "makes some",
      memory.trace_file);
}

/// Before the weights are read, which would be for nothing.
Status Session::check_trace() const {
  const TraceOptions& trace = options_.trace;
  if (trace.file.empty()) return {};
  if (const auto shape = TraceShape::of_model(spec(), 1, trace.logits); !shape)
    return in_context("--trace", shape.error());
  return TraceWriter::check(trace.file, trace.overwrite);
}

Result<TraceShape> Session::trace_shape(const EngineOptions& engine) const {
  const int64_t k = std::max(engine.max_experts_per_token, spec().router.experts_per_token);
  return TraceShape::of_model(spec(), k, options_.trace.logits);
}

int64_t Session::trace_buffer_bytes(const TraceShape& shape) const {
  return std::max(options_.trace.buffer_bytes, TraceRing::slot_bytes(shape));
}

Status Session::start_trace(const EngineOptions& engine) {
  const TraceOptions& trace = options_.trace;
  if (trace.file.empty()) return {};
  TraceInfo info = {.model = spec().name,
                    .architecture = spec().architecture,
                    .model_file = options_.path,
                    .policy = policy_json(policy_).dump(),
                    .soli = SOLI_VERSION,
                    .sampling = trace.sampling};
  SOLI_ASSIGN_OR_RETURN(info.model_id, model_id(file()));
  SOLI_ASSIGN_OR_RETURN(info.shape, trace_shape(engine));
  SOLI_ASSIGN_OR_RETURN(trace_writer_,
                        TraceWriter::start(trace.file, trace.overwrite, info, spec(), runtime_->budget(),
                                           trace_buffer_bytes(info.shape), cpus_));
  engine_->set_recorder(&trace_writer_->recorder());
  return {};
}

void Session::label_trace(std::vector<TraceWindow> windows) {
  if (trace_writer_ != nullptr) trace_writer_->set_windows(std::move(windows));
}

Status Session::finish_trace() {
  if (trace_writer_ == nullptr || trace_is_told_.exchange(true)) return {};
  SOLI_ASSIGN_OR_RETURN(const TraceWriter::Totals totals, trace_writer_->finish());
  print_note("trace: {} tokens written to {}\n", totals.n_written, options_.trace.file);
  if (totals.n_dropped > 0) {
    print_note("soli: the trace lost {} tokens, for which --trace-buffer {} had no room\n", totals.n_dropped,
               format_bytes(options_.trace.buffer_bytes));
  }
  return {};
}

Status Session::fill_slots() {
  if (tiered_ == nullptr) return {};
  const ExpertSource& source = tiered_->source();
  std::vector<ExpertNumber> experts;  // the first ones of all layers, then the second ones
  for (int64_t e = 0; e < source.n_experts(); ++e) {
    for (int64_t layer = 0; layer < source.n_layers(); ++layer)
      experts.push_back(static_cast<ExpertNumber>(layer * source.n_experts() + e));
  }
  ProgressLine progress("filling expert slots");
  SOLI_RETURN_IF_ERROR(
      tiered_->warm_up(experts, [&](int64_t done, int64_t total) { progress.show(done, total); }));
  return {};
}

std::optional<MemoryReport> Session::memory_report() const {
  if (tiered_ == nullptr) return std::nullopt;
  const EngineCounters& counters = engine_->counters();
  std::optional<double> disk_bytes_per_s;
  if (plan_.tiers->disk) disk_bytes_per_s = plan_.tiers->disk->bytes_per_s;
  MemoryReport report = make_memory_report(*tiered_, trace_ ? &*trace_ : nullptr,
                                           counters.prompt_rows + counters.decode_rows, disk_bytes_per_s);
  if (cache_aware_) report.moved_share = cache_aware_->moved_share();
  return report;
}

int64_t peak_resident_bytes() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;  // Linux counts KiB
}

}  // namespace soli::cli
