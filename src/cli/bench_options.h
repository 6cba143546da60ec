#pragma once

#include <cstdint>
#include <vector>

#include "cli/model_options.h"

namespace CLI {
class App;
}

namespace soli::cli {

/// Who watches the experts while one sequence decodes.
enum class Watcher {
  kRecorder,  // of the router's choices, as `run --routing`
  kMeter,     // of the experts' calls and time, as `serve --expert-metrics`
};

struct BenchOptions {
  ModelOptions model;
  std::vector<int64_t> prompts = {64, 512};     // tokens
  std::vector<int64_t> sequences = {1, 8, 32};  // that decode together
  bool prompts_given = false;  // or left at the default, of which what does not fit is left out
  bool sequences_given = false;
  int64_t generate = 64;  // decode steps
  int64_t repetitions = 5;
  bool probe = false;
  double ceiling_seconds = 0.5;  // per figure of the machine, before and after the work
  bool watching = false;
  Watcher watcher = Watcher::kRecorder;
  int64_t pairs = 100;  // of blocks with and without the watcher
  bool sweep = false;   // over memories and policies
  std::string text;     // of the sweep: its beginning is the prompt; "": random tokens
  std::string replay;   // turns to replay instead of running a model
  std::string svg;      // a file to write, or ""
  bool json = false;
};

void add_bench_options(CLI::App& app, BenchOptions& options);

}  // namespace soli::cli
