#include "cli/run_options.h"

#include <limits>
#include <random>
#include <utility>

#include "cli/chat_inputs.h"
#include "cli/flags.h"

namespace soli::cli {
namespace {

constexpr int64_t kAnyCount = std::numeric_limits<int64_t>::max();

void add_prompt_options(CLI::App& app, RunOptions& options) {
  CLI::Option* const prompt = add_text(app, "-p,--prompt", options.prompt, "The text to continue");
  add_path(app, "-f,--file", options.prompt_file, "Read the prompt from a file")->excludes(prompt);
  app.add_flag(
      "--parse-special", options.parse_special,
      "Texts like '<|im_start|>' in the prompt become their control token; in a chat they always do");
  add_integer(app, "-n,--predict", options.max_new_tokens, {-1, kAnyCount},
              "Tokens to generate at most; -1: until the model ends or the context is full");
  app.add_flag("--ignore-eos", options.ignore_eos, "Go on where the model would end");
}

void add_chat_options(CLI::App& app, RunOptions& options) {
  CLI::Option* const none = app.add_flag("--no-template", options.no_template,
                                         "Continue plain text, also in an interactive session");
  app.add_flag(
         "--chat", options.chat,
         "The prompt is a message, in the model's chat template; an interactive session with a model that "
         "carries one is a chat by itself")
      ->excludes(none);
  add_text(app, "--system", options.system, "The system message of the chat; implies --chat")->excludes(none);
  add_path(app, "--template", options.template_file,
           "A chat template in a file, instead of the model's own; implies --chat")
      ->type_name("FILE")
      ->excludes(none);
  add_variables(app, options.variables)->excludes(none);
}

void add_sampling_options(CLI::App& app, RunOptions& options) {
  SamplingParams& sampling = options.sampling;
  add_number(app, "--temp", sampling.temperature, {0, 1000}, "Temperature; 0: always the most likely token");
  add_integer(app, "--top-k", sampling.top_k, {0, kAnyCount},
              "Choose among the N most likely tokens; 0: all");
  add_number(app, "--top-p", sampling.top_p, {0, 1, true},
             "Choose among the most likely tokens whose probabilities sum to X; 1: all");
  add_number(app, "--min-p", sampling.min_p, {0, 1},
             "Leave out tokens with less than X times the best one's probability; 0: none");
  add_number(app, "--repeat-penalty", sampling.repeat_penalty, {0, 1000, true},
             "Makes recent tokens less likely when above 1; 1: off");
  add_integer(app, "--repeat-last-n", sampling.repeat_last_n, {0, kAnyCount},
              "How many recent tokens the penalty concerns; 0: none");
  add_integer(app, "--seed", options.seed, {-1, kAnyCount},
              "Seed of the draws; -1: a random one, shown by --json");
}

void add_routing_options(CLI::App& app, RunOptions& options) {
  add_integer(app, "--experts-per-token", options.model.policy.experts_per_token, {0, kMaxExperts},
              "Use N experts per token and layer (lossy); 0: as the model was trained");
  app.add_flag("--routing", options.routing, "Print the activation report after the text");
  add_path(app, "--routing-json", options.routing_json,
           "Write every choice of the router, and the report, to a file");
}

}  // namespace

void add_run_options(CLI::App& app, RunOptions& options) {
  add_model_options(app, options.model);
  add_prompt_options(app, options);
  add_chat_options(app, options);
  add_sampling_options(app, options);
  add_routing_options(app, options);
  add_path(app, "--access-trace", options.model.memory.trace_file,
           "Write which experts were called, turn by turn, for bench --memory-sweep --replay");
  add_path(
      app, "--heat", options.model.memory.heat_file,
      "How much each expert was called of late: loaded at the start, if it is there, to read the hottest "
      "experts first, and saved at the end");
  app.add_flag("--memory-report", options.model.memory.report,
               "Print what was read from the disk, and how good that was, after the text");
  app.add_flag("--json", options.json, "Print one JSON object at the end instead of the text");
}

int64_t random_seed() {
  std::random_device device;
  const uint64_t bits = (uint64_t{device()} << 32) | device();
  return static_cast<int64_t>(bits >> 1);
}

Request make_request(const RunOptions& options, const RoutingPolicy& policy, const Tokenizer& tokenizer,
                     std::vector<int32_t> prompt) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_new_tokens = options.max_new_tokens;
  if (!options.ignore_eos) request.end_tokens = tokenizer.end_of_generation_ids();
  request.sampling = options.sampling;
  request.sampling.seed = static_cast<uint64_t>(options.seed);
  request.policy = policy;
  return request;
}

}  // namespace soli::cli
