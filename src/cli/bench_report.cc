#include "cli/bench_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <iterator>

#include "base/units.h"
#include "base/utf8.h"
#include "cli/workbench.h"
#include "model/policy_text.h"

namespace soli::cli {
namespace {

using Json = nlohmann::ordered_json;
using Out = std::back_insert_iterator<std::string>;

Json prefill_json(const std::vector<PrefillFigures>& prefill) {
  Json json = Json::array();
  for (const PrefillFigures& figures : prefill) {
    json.push_back({{"tokens", figures.n_tokens},
                    {"tokens_per_s", measured_json(figures.tokens_per_s)},
                    {"operations_per_token", figures.operations_per_token},
                    {"disk_bytes_per_prompt", std::llround(figures.memory.bytes_per_step())},
                    {"expert_hit_rate", figures.memory.hit_rate()}});
  }
  return json;
}

Json decode_json(const BenchOptions& options, const std::vector<DecodeFigures>& decode) {
  Json json = Json::array();
  for (const DecodeFigures& figures : decode) {
    json.push_back({{"sequences", figures.n_sequences},
                    {"prompt", Workbench::kDecodePromptTokens},
                    {"generate", options.generate},
                    {"tokens_per_s", measured_json(figures.tokens_per_s)},
                    {"steps_per_s", measured_json(figures.steps_per_s)},
                    {"touched_bytes_per_step", std::llround(figures.touched_bytes_per_step)},
                    {"kv_bytes_per_step", std::llround(figures.kv_bytes_per_step)},
                    {"disk_bytes_per_step", std::llround(figures.memory.bytes_per_step())},
                    {"expert_hit_rate", figures.memory.hit_rate()}});
  }
  return json;
}

void render_prefill(Out out, const std::vector<PrefillFigures>& prefill) {
  if (prefill.empty()) return;
  fmt::format_to(out, "\n{:<16} {:>30} {:>16} {:>10}\n", "prefill, tokens", "tokens/s (range)", "op/token",
                 "Gop/s");
  for (const PrefillFigures& figures : prefill) {
    fmt::format_to(out, "{:>16} {:>30} {:>16} {:>10.1f}\n", figures.n_tokens,
                   measured_text(figures.tokens_per_s), format_count(figures.operations_per_token),
                   figures.tokens_per_s.median * figures.operations_per_token / 1e9);
  }
}

void render_decode(Out out, const BenchOptions& options, const std::vector<DecodeFigures>& decode) {
  if (decode.empty()) return;
  fmt::format_to(out, "\n{:<16} {:>30} {:>16} {:>10} {:>10} {:>14}\n", "decode, at once", "tokens/s (range)",
                 "steps/s", "touched", "GB/s", "keys, values");
  for (const DecodeFigures& figures : decode) {
    fmt::format_to(out, "{:>16} {:>30} {:>16.2f} {:>10} {:>10.2f} {:>14}\n", figures.n_sequences,
                   measured_text(figures.tokens_per_s), figures.steps_per_s.median,
                   format_mean_bytes(figures.touched_bytes_per_step),
                   figures.steps_per_s.median * figures.touched_bytes_per_step / 1e9,
                   format_mean_bytes(figures.kv_bytes_per_step));
  }
  fmt::format_to(out,
                 "\n{} steps after a prompt of {} tokens. Touched: bytes of weights per step, each distinct "
                 "expert once;\nGB/s: these times steps/s; keys and values come on top.\n",
                 options.generate, Workbench::kDecodePromptTokens);
}

/// Where experts are read from the disk.
void render_memory(Out out, const BenchFigures& figures) {
  fmt::format_to(out, "\n{:<26} {:>14} {:>16} {:>8}\n", "experts from the disk", "hit rate, %", "read",
                 "wait, %");
  const auto row = [&](const std::string& what, const MemoryFigures& memory, double step_seconds) {
    const double wait_s = static_cast<double>(memory.counters.wait_ns) * 1e-9;
    fmt::format_to(out, "{:<26} {:>14.1f} {:>16} {:>8.1f}\n", what, 100 * memory.hit_rate(),
                   format_mean_bytes(memory.bytes_per_step()),
                   100 * wait_s / (static_cast<double>(memory.n_steps) * step_seconds));
  };
  for (const PrefillFigures& prefill : figures.prefill) {
    row(fmt::format("prompt of {}", prefill.n_tokens), prefill.memory,
        static_cast<double>(prefill.n_tokens) / prefill.tokens_per_s.median);
  }
  for (const DecodeFigures& decode : figures.decode)
    row(fmt::format("step of {}", decode.n_sequences), decode.memory, 1 / decode.steps_per_s.median);
}

}  // namespace

std::string measured_text(const Measured& measured) {
  return fmt::format("{:.2f} ({:.2f} to {:.2f})", measured.median, measured.min, measured.max);
}

Json measured_json(const Measured& measured) {
  return {{"median", measured.median}, {"min", measured.min}, {"max", measured.max}};
}

std::string render_setup(Session& session, const BenchOptions& options) {
  const GgufFile& gguf = session.file().gguf();
  const EngineOptions& engine = options.model.engine;
  return fmt::format(
      "{}, {}, {}; loaded in {:.2f} s\n"
      "{}, {} threads{}, activations {}, keys and values {}\n"
      "routing: {}\n",
      printable(gguf.path(), 400), session.spec().architecture, format_bytes(gguf.file_bytes()),
      session.load_seconds(), session.runtime().kernels().isa, session.runtime().team().size(),
      session.runtime().team().is_pinned() ? " (pinned)" : "", name_of(engine.activations),
      name_of(engine.kv_type), describe(session.policy()));
}

Json setup_json(Session& session, const BenchOptions& options) {
  const GgufFile& gguf = session.file().gguf();
  const EngineOptions& engine = options.model.engine;
  return {{"soli", SOLI_VERSION},
          {"model", gguf.path()},
          {"architecture", session.spec().architecture},
          {"file_bytes", gguf.file_bytes()},
          {"isa", session.runtime().kernels().isa},
          {"threads", session.runtime().team().size()},
          {"pinned", session.runtime().team().is_pinned()},
          {"activations", name_of(engine.activations)},
          {"kv", name_of(engine.kv_type)},
          {"policy", policy_json(session.policy())},
          {"load_s", session.load_seconds()}};
}

std::string render_text(Session& session, const BenchOptions& options, const BenchFigures& figures) {
  std::string text = render_setup(session, options);
  const Out out = std::back_inserter(text);
  fmt::format_to(out, "median (range) of {}\n", options.repetitions);
  render_prefill(out, figures.prefill);
  render_decode(out, options, figures.decode);
  if (session.plan().tiers) render_memory(out, figures);
  if (figures.probe) text += render_text(*figures.probe);
  for (const std::string& reason : figures.void_reasons) fmt::format_to(out, "\nVOID: {}", reason);
  if (!figures.void_reasons.empty()) text += "\n";
  return text;
}

Json to_json(Session& session, const BenchOptions& options, const BenchFigures& figures) {
  const std::vector<std::string>& reasons = figures.void_reasons;
  Json json = setup_json(session, options);
  json["memory"] = to_json(session.plan(), options.model.memory);
  json["repetitions"] = options.repetitions;
  json["prefill"] = prefill_json(figures.prefill);
  json["decode"] = decode_json(options, figures.decode);
  json["ceilings"] = figures.probe ? ceilings_json(*figures.probe) : Json();
  json["probe"] = figures.probe ? work_json(*figures.probe) : Json::array();
  json["void"] = reasons.empty() ? Json() : Json(fmt::format("{}", fmt::join(reasons, "; ")));
  return json;
}

}  // namespace soli::cli
