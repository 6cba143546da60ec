#include "cli/run_report.h"

#include "base/units.h"
#include "cli/precision.h"
#include "model/policy_text.h"
#include "observe/routing_json.h"

namespace soli::cli {
namespace {

using Json = nlohmann::ordered_json;

Json sampling_json(const SamplingParams& sampling, int64_t seed) {
  return {{"temperature", sampling.temperature},
          {"top_k", sampling.top_k},
          {"top_p", sampling.top_p},
          {"min_p", sampling.min_p},
          {"repeat_penalty", sampling.repeat_penalty},
          {"repeat_last_n", sampling.repeat_last_n},
          {"seed", seed}};
}

/// How activations really meet each weight type of this model.
Json effective_precisions(Session& session) {
  Json json = Json::object();
  const kernels::KernelTable& kernels = session.runtime().kernels();
  for (const uint32_t type : matrix_types(session.file())) {
    const auto precision = effective_precision(kernels, type, session.options().engine.activations);
    json[ggml_type_name(type)] = precision ? Json(*precision) : Json();
  }
  return json;
}

Json settings_json(Session& session, const RunOptions& options) {
  const EngineOptions& engine = session.options().engine;
  const RouterSpec& router = session.spec().router;
  const RoutingPolicy& policy = session.policy();
  const int64_t k = policy.experts_per_token > 0 ? policy.experts_per_token : router.experts_per_token;
  const Json chat_template = !options.wants_chat()           ? Json()
                             : options.template_file.empty() ? Json("model")
                                                             : Json(options.template_file);
  return {{"max_new_tokens", options.max_new_tokens},
          {"ignore_eos", options.ignore_eos},
          {"chat_template", chat_template},
          {"sampling", sampling_json(options.sampling, options.seed)},
          {"context_length", session.engine().context_length()},
          {"batch_size", session.plan().chunk_rows},
          {"threads", session.runtime().team().size()},
          {"pinned", session.runtime().team().is_pinned()},
          {"isa", session.runtime().kernels().isa},
          {"act", name_of(engine.activations)},
          {"activations_by_weight_type", effective_precisions(session)},
          {"kv", name_of(engine.kv_type)},
          {"memory_limit_bytes", session.plan().limit.bytes},
          {"experts_per_token", k},
          {"policy", policy_json(policy)},
          {"lossy", !policy.is_exact()}};
}

Json timings_json(const Session& session, const Generation& generation) {
  return {{"load_seconds", session.load_seconds()},
          {"prefill_seconds", generation.prefill_seconds},
          {"prefill_tokens_per_second", generation.prefill_tokens_per_second()},
          {"decode_seconds", generation.decode_seconds},
          {"decode_tokens_per_second", generation.decode_tokens_per_second()}};
}

}  // namespace

std::string timings_line(const Session& session, const Generation& generation) {
  return fmt::format(
      "{} prompt tokens in {:.2f} s ({:.1f}/s), {} generated in {:.2f} s ({:.1f}/s; {}), loaded in {:.2f} s, "
      "peak "
      "memory {}",
      generation.n_prefilled(), generation.prefill_seconds, generation.prefill_tokens_per_second(),
      generation.tokens.size(), generation.decode_seconds, generation.decode_tokens_per_second(),
      describe(generation.reason), session.load_seconds(), format_bytes(peak_resident_bytes()));
}

nlohmann::ordered_json run_json(Session& session, const RunOptions& options, const Generation& generation,
                                const std::optional<ActivationReport>& report) {
  Json json = {{"model", session.file().gguf().path()},
               {"text", generation.text},
               {"tokens", generation.tokens},
               {"prompt_tokens", generation.n_prompt},
               {"computed_tokens", generation.n_computed},
               {"finish_reason", name_of(generation.reason)},
               {"settings", settings_json(session, options)},
               {"timings", timings_json(session, generation)},
               {"peak_resident_bytes", peak_resident_bytes()},
               {"memory", to_json(session.plan(), session.options().memory)},
               {"memory_in_use_bytes", session.runtime().budget().used_by_name()}};
  if (report) json["routing"] = to_json(*report);
  if (options.model.memory.report) {
    const std::optional<MemoryReport> memory = session.memory_report();
    json["memory_report"] = memory ? to_json(*memory) : Json();
  }
  return json;
}

std::string memory_report_text(const Session& session) {
  const std::optional<MemoryReport> report = session.memory_report();
  return report ? render_text(*report)
                : "Memory report: all weights are in memory; nothing was read after they were loaded\n";
}

Result<ActivationReport> report_routing(const Session& session, const RunOptions& options,
                                        const ActivationRecorder& recorder, const Generation& generation) {
  const RequestChoices choices = recorder.choices_of(generation.request);
  const ParameterCounts counts = count_parameters(session.file());
  ActivationReport report =
      make_report(choices, session.spec(), counts, generation.n_prompt, generation.n_computed);
  if (!options.routing_json.empty()) {
    SOLI_RETURN_IF_ERROR(write_routing_json(options.routing_json, choices, session.spec(), counts,
                                            generation.n_prompt, report));
  }
  return report;
}

}  // namespace soli::cli
