#pragma once

#include <functional>

#include "base/result.h"

namespace CLI {
class App;
}

namespace soli::cli {

// Exit statuses, the same for every command; the help of the program lists them.
inline constexpr int kExitDone = 0;
inline constexpr int kExitError = 1;          // the command line is right and could not be carried out
inline constexpr int kExitUsage = 2;          // the command line is wrong
inline constexpr int kExitInterrupted = 130;  // 128 + SIGINT, as shells count

/// One command: its part of the command line, and what is done once that has been read. `run` gives the exit
/// status; an error is printed by the caller and means kExitError.
struct Command {
  CLI::App* app = nullptr;
  std::function<Result<int>()> run;
};

// One per file. Each adds itself and its options to `program`.
Command add_run(CLI::App& program);
Command add_serve(CLI::App& program);
Command add_inspect(CLI::App& program);
Command add_tokenize(CLI::App& program);
Command add_render(CLI::App& program);
Command add_logits(CLI::App& program);
Command add_eval(CLI::App& program);
Command add_dissect(CLI::App& program);
Command add_diagnose(CLI::App& program);
Command add_profile(CLI::App& program);
Command add_bench(CLI::App& program);
Command add_synth(CLI::App& program);
Command add_pack(CLI::App& program);
Command add_trace(CLI::App& program);
Command add_replay(CLI::App& program);
Command add_completion(CLI::App& program);

}  // namespace soli::cli
