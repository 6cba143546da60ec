// The program: reads the command line, runs one command, gives its exit status.
#include <CLI/CLI.hpp>
#include <csignal>
#include <sstream>
#include <vector>

#include "base/log.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/output.h"

namespace soli::cli {
namespace {

constexpr const char* kFooter =
    "'soli COMMAND --help' shows the options of a command, with examples.\n\n"
    "Environment:\n"
    "  SOLI_ISA    scalar, avx2 or avx512: the instruction set to use (default: the fastest that is "
    "there)\n\n"
    "Exit status:\n"
    "  0    done\n"
    "  1    the command line is right, and could not be carried out\n"
    "  2    the command line is wrong\n"
    "  130  interrupted (Ctrl-C, or SIGTERM)";

std::vector<Command> add_commands(CLI::App& program) {
  return {add_run(program),     add_serve(program),    add_inspect(program), add_tokenize(program),
          add_render(program),  add_logits(program),   add_eval(program),    add_profile(program),
          add_dissect(program), add_diagnose(program), add_bench(program),   add_synth(program),
          add_pack(program),    add_trace(program),    add_replay(program),  add_completion(program)};
}

/// Says what is wrong with the command line, and where help is. For --help and --version CLI11 throws too.
int refuse(const CLI::App& program, const std::vector<Command>& commands, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    std::ostringstream help;
    program.exit(error, help, help);
    write_output(help.str());
    const Status flushed = flush_output();
    if (!flushed) print_error(flushed.error());
    return flushed ? kExitDone : kExitError;
  }
  std::string command;
  for (const Command& candidate : commands) {
    if (!candidate.app->parsed()) continue;
    command = " " + candidate.app->get_name();
    for (const CLI::App* part : candidate.app->get_subcommands()) command += " " + part->get_name();
  }
  std::string message = printable(error.what(), 1024);
  if (const std::vector<std::string> rest = program.remaining(); command.empty() && !rest.empty()) {
    message = fmt::format("unknown command '{}'", printable(rest.front()));
  }
  print_note("soli{}: {}\nTry 'soli{} --help'.\n", command, message, command);
  return kExitUsage;
}

int run(const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const Result<int> status = command.run();
    if (!status) {
      print_error(status.error());
      return kExitError;
    }
    if (const Status flushed = flush_output(); !flushed) {
      print_error(flushed.error());
      return kExitError;
    }
    return *status;
  }
  return kExitUsage;
}

int main(int argc, char** argv) {
  CLI::App program("soli runs and shows Mixture-of-Experts language models", "soli");
  program.set_version_flag("--version", "soli " SOLI_VERSION);
  program.require_subcommand(1);
  program.footer(kFooter);
  std::string log_level = "warn";
  std::vector<std::pair<std::string, std::string>> levels;
  for (const char* level : {"trace", "debug", "info", "warn", "error", "off"})
    levels.emplace_back(level, level);
  add_choice<std::string>(program, "--log-level", log_level, levels, "How much is logged to standard error");
  const std::vector<Command> commands = add_commands(program);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return refuse(program, commands, error);
  }
  if (const Status status = init_log(log_level); !status) {
    print_error(status.error());
    return kExitUsage;
  }
  return run(commands);
}

}  // namespace
}  // namespace soli::cli

int main(int argc, char** argv) {
  // A file that may grow no more is then an error like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  return soli::cli::main(argc, argv);
}
