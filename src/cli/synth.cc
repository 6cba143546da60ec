// soli synth: a model file with random weights, to test a machine with before a large model is downloaded.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "base/units.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "io/file.h"
#include "model/synth.h"

namespace soli::cli {
namespace {

/// A size of the spec that an option overrides; -1: not given.
struct SizeOption {
  const char* names;
  int64_t* value;
  const char* what;
};

struct Sizes {
  int64_t layers = -1;
  int64_t hidden = -1;
  int64_t heads = -1;
  int64_t kv_heads = -1;
  int64_t head_dim = -1;
  int64_t experts = -1;
  int64_t experts_per_token = -1;
  int64_t expert_width = -1;
  int64_t shared_width = -1;
  int64_t ffn_width = -1;
  int64_t vocab = -1;
  int64_t context = -1;
};

struct SynthCommandOptions {
  std::string preset;
  std::string family;
  Sizes sizes;
  std::string type;
  std::vector<std::string> part_types;  // "routed experts=Q4_K"
  std::vector<std::string> keys;        // "attention.sliding_window=64"
  double skew = 0;
  std::string routing;  // "planted" or "planted:SPEC", or ""
  std::string truth;    // a file to write, or ""
  int64_t seed = 0;
  int64_t n_threads = 0;
  bool tied = false;
  bool fuse_attention = false;
  bool fuse_experts = false;
  std::string out;
};

void apply(int64_t given, int64_t& size) {
  if (given >= 0) size = given;
}

void apply(const Sizes& given, ModelSpec& spec) {
  apply(given.layers, spec.n_layers);
  apply(given.hidden, spec.hidden_size);
  apply(given.heads, spec.n_heads);
  apply(given.kv_heads, spec.n_kv_heads);
  apply(given.experts, spec.router.n_experts);
  apply(given.experts_per_token, spec.router.experts_per_token);
  apply(given.expert_width, spec.expert_width);
  apply(given.shared_width, spec.shared_expert_width);
  apply(given.ffn_width, spec.ffn_width);
  apply(given.vocab, spec.vocab_size);
  apply(given.context, spec.context_length);
  if (given.head_dim >= 0) spec.head_dim = spec.value_dim = spec.rope_dims = given.head_dim;
}

/// "routed-experts" and "routed experts" name the same part.
std::string part_flag(Part part) {
  std::string name(soli::name_of(part));
  for (char& c : name) {
    if (c == ' ') c = '-';
  }
  return name;
}

/// A weight type or a mixture of them.
Status apply_type(const kernels::KernelTable& kernels, const std::string& name, SynthOptions& synth) {
  if (const TypeMix* mix = find_type_mix(name); mix != nullptr) {
    synth.use_mix(*mix);
    return {};
  }
  const Result<uint32_t> type = weight_type_of_name(kernels, name);
  if (!type) {
    return fail(ErrorKind::kInvalidArgument, "{}, {}", type.error().message,
                fmt::join(type_mix_names(), ", "));
  }
  synth.types = SynthOptions::uniform_types(*type);
  return {};
}

Status apply_part_type(const kernels::KernelTable& kernels, const std::string& text, SynthOptions& synth) {
  const size_t equals = text.find('=');
  std::string names;
  for (int i = 0; i < kParts; ++i) {
    const Part part = static_cast<Part>(i);
    names += (names.empty() ? "" : ", ") + part_flag(part);
    if (equals == std::string::npos || text.substr(0, equals) != part_flag(part)) continue;
    SOLI_ASSIGN_OR_RETURN(synth.type_of(part), weight_type_of_name(kernels, text.substr(equals + 1)));
    return {};
  }
  return fail(ErrorKind::kInvalidArgument, "--part-type: '{}' is not PART=TYPE with a part of {}", text,
              names);
}

Status apply_key(const std::string& text, SynthOptions& synth) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos)
    return fail(ErrorKind::kInvalidArgument, "--set: '{}' is not KEY=VALUE", text);
  return set_synth_key(synth, text.substr(0, equals), text.substr(equals + 1));
}

Status apply_routing(const std::string& routing, SynthOptions& synth) {
  constexpr std::string_view kPlanted = "planted";
  if (routing.empty()) return {};
  const std::string_view text = routing;
  const bool has_spec = text.starts_with("planted:");
  if (text != kPlanted && !has_spec) {
    return fail(ErrorKind::kInvalidArgument, "--routing: '{}' is not planted or planted:SPEC",
                printable(routing));
  }
  SOLI_ASSIGN_OR_RETURN(synth.planted, parse_planted(has_spec ? text.substr(kPlanted.size() + 1) : ""));
  return {};
}

/// Whatever fails here is a value on the command line.
Result<SynthOptions> synth_options(const SynthCommandOptions& options, const kernels::KernelTable& kernels) {
  SOLI_ASSIGN_OR_RETURN(SynthOptions synth,
                        options.preset.empty() ? tiny_synth(options.family) : synth_preset(options.preset));
  apply(options.sizes, synth.spec);
  if (!options.type.empty()) SOLI_RETURN_IF_ERROR(apply_type(kernels, options.type, synth));
  for (const std::string& text : options.part_types)
    SOLI_RETURN_IF_ERROR(apply_part_type(kernels, text, synth));
  for (const std::string& text : options.keys) SOLI_RETURN_IF_ERROR(apply_key(text, synth));
  synth.tied_output = synth.tied_output || options.tied;
  synth.fuse_attention = options.fuse_attention;
  synth.fuse_experts = options.fuse_experts;
  synth.routing_skew = options.skew;
  SOLI_RETURN_IF_ERROR(apply_routing(options.routing, synth));
  synth.seed = static_cast<uint64_t>(options.seed);
  SOLI_RETURN_IF_ERROR(complete_synth_spec(synth));
  SOLI_RETURN_IF_ERROR(planted_truth(synth));
  return synth;
}

Result<int> run_synth(const SynthCommandOptions& options) {
  SOLI_ASSIGN_OR_RETURN(const std::string isa, requested_isa());
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<Runtime> runtime,
                        Runtime::create({.n_threads = static_cast<int>(options.n_threads), .isa = isa}));
  const Result<SynthOptions> synth = synth_options(options, runtime->kernels());
  if (!synth) {
    print_error(synth.error());
    return kExitUsage;
  }
  int64_t n_bytes = 0;
  {
    // A half file may be huge: Ctrl-C removes it.
    const InterruptGuard interrupt(InterruptGuard::Second::kEndsProcess);
    ProgressLine progress("writing");
    const Status written =
        write_synthetic_model(*synth, options.out, *runtime, [&](int64_t done, int64_t total) {
          n_bytes = total;
          progress.show(done, total);
          return !interrupt.interrupted();
        });
    if (!written && written.error().kind == ErrorKind::kCancelled) {
      print_note("soli: interrupted: {} is not written\n", options.out);
      return kExitInterrupted;
    }
    SOLI_RETURN_IF_ERROR(written);
  }
  if (!options.truth.empty()) {
    SOLI_ASSIGN_OR_RETURN(const nlohmann::ordered_json truth, planted_truth(*synth));
    const std::string text = truth.dump(1) + "\n";
    SOLI_RETURN_IF_ERROR(write_file(options.truth, std::as_bytes(std::span(text))));
  }
  print("{}: {} with random weights, {}\n", options.out, synth->spec.architecture, format_bytes(n_bytes));
  return kExitDone;
}

void add_sizes(CLI::App& app, Sizes& sizes) {
  const SizeOption options[] = {
      {"--layers", &sizes.layers, "Layers"},
      {"--hidden", &sizes.hidden, "Hidden size"},
      {"--heads", &sizes.heads, "Attention heads"},
      {"--kv-heads", &sizes.kv_heads, "Heads for keys and values"},
      {"--head-dim", &sizes.head_dim, "Size of a head"},
      {"--experts", &sizes.experts, "Experts per layer; 0: a dense model"},
      {"--experts-per-token", &sizes.experts_per_token, "Experts that a token uses"},
      {"--expert-width", &sizes.expert_width, "Width of an expert"},
      {"--shared-width", &sizes.shared_width, "Width of the shared expert"},
      {"--ffn-width", &sizes.ffn_width, "Width of dense feed-forwards"},
      {"--vocab", &sizes.vocab, "Tokens of the vocabulary"},
      {"--context", &sizes.context, "Positions of the context"}};
  for (const SizeOption& option : options) {
    add_integer(app, option.names, *option.value, {0, kMaxContextLength}, option.what)->default_str("");
  }
}

}  // namespace

Command add_synth(CLI::App& program) {
  CLI::App* const app = program.add_subcommand("synth", "Write a model file with random weights");
  const auto options = std::make_shared<SynthCommandOptions>();
  CLI::Option* const preset =
      app->add_option("--preset", options->preset, "The shape of a published model, or tiny");
  preset->type_name(fmt::format("{{{}}}", fmt::join(synth_preset_names(), ",")));
  CLI::Option* const family =
      app->add_option("--family", options->family, "Begin with a tiny model of a family");
  family->type_name(fmt::format("{{{}}}", fmt::join(family_names(), ",")))->excludes(preset);
  add_path(*app, "-o,--out", options->out, "The file to write")->required();
  add_sizes(*app, options->sizes);
  app->add_option(
         "--type", options->type,
         fmt::format("Weight type of all matrices but the router's, such as Q4_K, or a mixture of types: {}",
                     fmt::join(type_mix_names(), ", ")))
      ->type_name("TYPE");
  app->add_option("--part-type", options->part_types, "Weight type of one part, such as routed-experts=Q4_K")
      ->type_name("PART=TYPE")
      ->expected(1)
      ->take_all();
  app->add_option("--set", options->keys,
                  "A metadata key of the family, without its name, such as attention.sliding_window=64")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  CLI::Option* const skew = add_number(
      *app, "--skew", options->skew, {0, kMaxRoutingSkew},
      "How unevenly experts are chosen: the best one is of rank r with a share like r^-X; 0: evenly");
  CLI::Option* const routing =
      app->add_option(
             "--routing", options->routing,
             "planted, or planted:domains=3,per-domain=1,hot=1,dead=2 or planted:random: a routing that "
             "is known, for texts of certain letters (docs/profiling.md)")
          ->type_name("SPEC")
          ->excludes(skew);
  add_path(*app, "--truth", options->truth, "Write what was planted, as JSON")->needs(routing);
  add_integer(*app, "--seed", options->seed, {0, std::numeric_limits<int64_t>::max()}, "Seed of the weights");
  add_integer(*app, "-t,--threads", options->n_threads, {0, ThreadTeam::kMaxThreads},
              "Threads; 0: one per core");
  app->add_flag("--tied", options->tied, "The output head is the embedding");
  app->add_flag("--fuse-attention", options->fuse_attention,
                "One tensor for q, k and v, or the older layout of latent attention");
  app->add_flag("--fuse-experts", options->fuse_experts, "One tensor for gate and up of the experts");
  app->callback([preset, family] {
    if (preset->empty() && family->empty()) throw CLI::RequiredError("--preset NAME or --family NAME");
  });
  app->footer(
      "The bytes depend on the options alone, not on threads or the machine.\n\n"
      "Examples:\n"
      "  soli synth --preset olmoe-1b-7b --type Q4_K_M -o olmoe.gguf\n"
      "  soli synth --preset tiny --experts 64 --experts-per-token 8 --skew 1 -o skewed.gguf\n"
      "  soli synth --preset tiny --experts 16 --experts-per-token 4 --routing planted --truth truth.json -o "
      "planted.gguf");
  return {app, [options] { return run_synth(*options); }};
}

}  // namespace soli::cli
