#include "cli/replay_model.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "base/utf8.h"
#include "cli/eval_texts.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/output_files.h"
#include "cli/perplexity.h"
#include "cli/progress.h"
#include "io/file_writer.h"
#include "model/model_id.h"

namespace soli::cli {
namespace {

using OnLogits = decltype(Evaluation::on_logits);

// Rows of a step that bring their whole distribution: what is delivered and not yet looked at stays small.
constexpr int64_t kRowsWithLogits = 8;

WindowPlan plan_of(const TraceSequences& sequences) {
  WindowPlan plan;
  for (const TraceSequence& sequence : sequences.sequences) {
    plan.windows.push_back(sequence.tokens);
    plan.n_scored += static_cast<int64_t>(sequence.tokens.size()) - 1;
  }
  return plan;
}

/// Runs over the trace. Of the recorded choices, those of the requests that run are in memory.
class Replayer {
 public:
  Replayer(const ModelReplay& replay, TraceReader& reader, const TraceSequences& sequences,
           const WindowPlan& plan, Session& session)
      : replay_(replay), reader_(reader), sequences_(sequences), plan_(plan), session_(session) {}

  Result<ReplayRun> run(bool forces, const OnLogits& on_logits) {
    const InterruptGuard interrupt(InterruptGuard::Second::kEndsProcess);
    ProgressLine progress(forces ? "replaying" : "routing freely");
    ReplayRouter router(session_.spec(), forces, replay_.weights);
    std::map<size_t, RequestId> running;
    size_t n_ended = 0;
    Evaluation evaluation = {.n_parallel = replay_.n_parallel, .on_progress = {}, .on_logits = on_logits};
    evaluation.to_the_end = true;
    evaluation.on_submit = [&](size_t window, RequestId request) -> Status {
      SOLI_ASSIGN_OR_RETURN(RecordedChoices choices,
                            read_choices(reader_, sequences_.sequences[window].request));
      router.add(request, std::move(choices));
      running[window] = request;
      return {};
    };
    evaluation.on_progress = [&](int64_t n_scored, const std::vector<WindowLoss>& done) {
      for (; n_ended < done.size(); ++n_ended) router.remove(running[done[n_ended].window]);
      progress.show(n_scored, plan_.n_scored, "");
      return !interrupt.interrupted();
    };
    session_.engine().set_hooks({.control = &router});
    auto losses = evaluate(session_.engine(), plan_, evaluation);
    session_.engine().set_hooks({});
    if (!losses) return in_context(replay_.trace, std::move(losses).error());
    if (losses->size() < plan_.windows.size()) return fail(ErrorKind::kCancelled, "interrupted");
    return ReplayRun{*std::move(losses), router.agreement()};
  }

 private:
  const ModelReplay& replay_;
  TraceReader& reader_;
  const TraceSequences& sequences_;
  const WindowPlan& plan_;
  Session& session_;
};

Status check_options(const ModelReplay& replay) {
  if (replay.model.memory.lossy()) {
    return fail(ErrorKind::kInvalidArgument,
                "--prefer-cached, --twin: a replay is of the trace's choices and the model's own experts");
  }
  return {};
}

Status check_session(const ModelReplay& replay, const Session& session, const TraceSequences& sequences) {
  if (!session.policy().is_exact()) {
    return fail(
        ErrorKind::kInvalidArgument,
        "--policy, --steer: the choices are the trace's, and the other run is the model's own routing");
  }
  for (const TraceSequence& sequence : sequences.sequences) {
    if (static_cast<int64_t>(sequence.tokens.size()) <= session.context_length()) continue;
    return fail(ErrorKind::kInvalidArgument, "{}: request {} has {} tokens: the context has room for {} (-c)",
                replay.trace, sequence.request, sequence.tokens.size(), session.context_length());
  }
  if (!replay.out.empty() && sequences.sequences.size() > 1) {
    return fail(ErrorKind::kInvalidArgument,
                "--out {}: the trace has {} requests; --request says of which the logits are written",
                replay.out, sequences.sequences.size());
  }
  return check_output_files(session, {{"--out", replay.out}}, {{"TRACE", replay.trace}});
}

/// Whether the model is the trace's, as far as the trace knows; says on stderr what differs.
std::optional<bool> compare_models(const TraceInfo& info, const ModelSpec& spec, const std::string& id) {
  // As a trace has it.
  if (info.model != replace_invalid_utf8(spec.name) || info.architecture != spec.architecture) {
    print_note("soli: the trace is of {} ({}), and this model is {} ({})\n", printable(info.model, 200),
               printable(info.architecture, 200), printable(spec.name, 200), spec.architecture);
    return false;
  }
  if (info.model_id.empty()) return std::nullopt;
  if (info.model_id == id) return true;
  print_note("soli: the trace is of another {}: its tensors have other types, or the routers differ\n",
             printable(spec.name, 200));
  return false;
}

Status run_both(Replayer& replayer, const WindowPlan& plan, const Session& session, ReplayFigures& figures) {
  std::optional<DivergenceMeter> meter;
  if (figures.replay.against_own) {
    SOLI_ASSIGN_OR_RETURN(meter, DivergenceMeter::create(plan, session.spec().vocab_size));
    SOLI_ASSIGN_OR_RETURN(figures.own, replayer.run(false, [&](size_t window, int64_t position, auto logits) {
      return meter->set_reference(window, position, logits);
    }));
  }
  std::optional<FileWriter> out;
  if (!figures.replay.out.empty()) {
    SOLI_ASSIGN_OR_RETURN(out, FileWriter::create(figures.replay.out));
  }
  OnLogits on_logits;
  if (meter || out) {
    on_logits = [&](size_t window, int64_t position, std::span<const float> logits) -> Status {
      if (meter) SOLI_RETURN_IF_ERROR(meter->compare(window, position, logits));
      return out ? out->append(std::as_bytes(logits)) : Status();  // little endian, like this machine
    };
  }
  SOLI_ASSIGN_OR_RETURN(figures.forced, replayer.run(true, on_logits));
  if (meter) figures.divergence = meter->take_samples();
  return out ? out->commit() : Status();
}

}  // namespace

ChoiceAgreement ReplayRun::total() const {
  ChoiceAgreement total;
  for (const ChoiceAgreement& layer : agreement) total += layer;
  return total;
}

Result<ReplayFigures> replay_model(const ModelReplay& replay) {
  SOLI_RETURN_IF_ERROR(check_options(replay));
  SOLI_ASSIGN_OR_RETURN(TraceReader reader, TraceReader::open(replay.trace));
  // What the choices take in memory is known before the session plans it.
  SOLI_ASSIGN_OR_RETURN(const ModelFile file, ModelFile::open(replay.model.path));
  SOLI_ASSIGN_OR_RETURN(const TraceSequences sequences,
                        read_sequences(reader, file.spec(), replay.request, replay.skips_incomplete));
  const TraceShape& shape = reader.shape();
  ModelOptions options = replay.model;
  const int64_t n_at_once =
      std::min<int64_t>(replay.n_parallel, static_cast<int64_t>(sequences.sequences.size()));
  options.memory.further_bytes +=
      sequences.longest() * n_at_once * RecordedChoices::bytes_per_position(shape.n_layers(), shape.k);
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::open(options));
  SOLI_RETURN_IF_ERROR(check_session(replay, *session, sequences));
  SOLI_ASSIGN_OR_RETURN(const std::string id, model_id(file));

  ReplayFigures figures = {
      .replay = replay,
      .model = fmt::format("{} ({})", session->spec().name, session->spec().architecture),
      .info = reader.info(),
      .is_same_model = compare_models(reader.info(), session->spec(), id),
      .n_requests = static_cast<int64_t>(sequences.sequences.size()),
      .n_tokens = sequences.n_tokens(),
      .n_skipped = sequences.n_skipped};
  EngineOptions engine = options.engine;
  engine.max_experts_per_token = shape.k;
  if (replay.against_own || !replay.out.empty()) engine.max_logit_rows = kRowsWithLogits;
  const WindowPlan plan = plan_of(sequences);
  SOLI_RETURN_IF_ERROR(
      load_for({{replay.trace, plan}}, sequences.longest(), replay.n_parallel, engine, *session));
  Replayer replayer(replay, reader, sequences, plan, *session);
  SOLI_RETURN_IF_ERROR(run_both(replayer, plan, *session, figures));
  SOLI_RETURN_IF_ERROR(session->finish_trace());
  return figures;
}

}  // namespace soli::cli
