// soli completion: scripts for shells, made from the definition of the command line itself.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/completion_script.h"
#include "cli/flags.h"
#include "cli/output.h"

namespace soli::cli {

Command add_completion(CLI::App& program) {
  CLI::App* const app = program.add_subcommand("completion", "Print a completion script for a shell");
  const auto shell = std::make_shared<std::string>();
  app->add_option("shell", *shell, "The shell")
      ->required()
      ->type_name("{bash,zsh,fish}")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app->footer(
      "Examples:\n"
      "  source <(soli completion bash)\n"
      "  soli completion zsh > ~/.zfunc/_soli\n"
      "  soli completion fish > ~/.config/fish/completions/soli.fish");
  return {app, [shell, &program]() -> Result<int> {
            print("{}", completion_script(program, *shell));
            return kExitDone;
          }};
}

}  // namespace soli::cli
