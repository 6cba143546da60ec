#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/model_options.h"
#include "engine/request.h"
#include "format/tokenizer.h"

namespace CLI {
class App;
}

namespace soli::cli {

struct RunOptions {
  ModelOptions model;
  std::optional<std::string> prompt;
  std::string prompt_file;
  int64_t max_new_tokens = -1;
  SamplingParams sampling;
  int64_t seed = -1;  // -1: a random one
  bool ignore_eos = false;
  bool parse_special = false;
  bool chat = false;         // asked for
  bool no_template = false;  // never
  std::optional<std::string> system;
  std::string template_file;           // "": the model's own
  std::vector<std::string> variables;  // of the template, NAME=VALUE
  bool json = false;
  bool routing = false;
  std::string routing_json;  // file to write, or ""

  /// Whether the prompt is a message, by what the command line says.
  bool wants_chat() const { return chat || system || !template_file.empty() || !variables.empty(); }
  bool wants_routing() const { return routing || !routing_json.empty(); }
};

void add_run_options(CLI::App& app, RunOptions& options);

/// A seed from the system's source of randomness.
int64_t random_seed();

/// The request that the options ask for, with a policy, for a prompt in tokens.
Request make_request(const RunOptions& options, const RoutingPolicy& policy, const Tokenizer& tokenizer,
                     std::vector<int32_t> prompt);

}  // namespace soli::cli
