#include "cli/completion_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

namespace soli::cli {
namespace {

struct OptionLine {
  std::vector<std::string> names;  // with dashes; empty for a positional
  std::string what;
  bool takes_value = false;
  std::vector<std::string> values;  // allowed ones, where there is a list
  bool is_part = false;             // names of what stands right after a command; files may follow
};

struct CommandLine {
  std::string name;
  std::string what;
  std::vector<OptionLine> options;
};

/// "{f32,q8}" names the allowed values; any other type name does not.
std::vector<std::string> listed_values(const std::string& type_name) {
  const size_t begin = type_name.find('{');
  const size_t end = type_name.find('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {};
  return CLI::detail::split(type_name.substr(begin + 1, end - begin - 1), ',');
}

std::vector<OptionLine> options_of(const CLI::App& app) {
  std::vector<OptionLine> lines;
  for (const CLI::Option* option : app.get_options()) {
    OptionLine line;
    for (const std::string& name : option->get_snames()) line.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) line.names.push_back("--" + name);
    line.what = option->get_description();
    line.takes_value = option->get_expected_max() > 0 && option->get_type_size_max() > 0;
    line.values = listed_values(option->get_type_name());
    lines.push_back(std::move(line));
  }
  return lines;
}

bool is_known(const std::vector<OptionLine>& options, const OptionLine& option) {
  return std::any_of(options.begin(), options.end(),
                     [&](const OptionLine& known) { return known.names == option.names; });
}

/// What a command that has parts, such as trace, can be followed by: their names, and the options of all.
void add_parts(const CLI::App& app, std::vector<OptionLine>& options) {
  OptionLine names;
  for (const CLI::App* part : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.values.push_back(part->get_name());
    for (OptionLine& option : options_of(*part)) {
      if (!option.names.empty() && !is_known(options, option)) options.push_back(std::move(option));
    }
  }
  names.is_part = true;
  if (!names.values.empty()) options.push_back(std::move(names));
}

std::vector<CommandLine> commands_of(const CLI::App& program) {
  std::vector<CommandLine> commands;
  for (const CLI::App* app : program.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back({app->get_name(), app->get_description(), options_of(*app)});
    add_parts(*app, commands.back().options);
  }
  return commands;
}

std::vector<std::string> all_names(const std::vector<OptionLine>& options) {
  std::vector<std::string> names;
  for (const OptionLine& option : options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

/// Text within single quotes of any of the shells.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

std::string bash_values(const CommandLine& command) {
  std::string text;
  for (const OptionLine& option : command.options) {
    if (option.values.empty()) continue;
    if (option.names.empty()) {
      text += fmt::format("        {}) words={} ;;\n", option.is_part ? command.name : "*",
                          quoted(fmt::format("{}", fmt::join(option.values, " "))));
    } else {
      text += fmt::format("        {}) words={} ;;\n", fmt::join(option.names, "|"),
                          quoted(fmt::format("{}", fmt::join(option.values, " "))));
    }
  }
  return text;
}

std::string bash_script(const std::vector<CommandLine>& commands, const std::vector<OptionLine>& global) {
  std::vector<std::string> names;
  for (const CommandLine& command : commands) names.push_back(command.name);
  std::string text = fmt::format(
      "_soli() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command='' word "
      "words=''\n"
      "  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n"
      "    case $word in {}) command=$word; break ;; esac\n"
      "  done\n"
      "  case $command in\n"
      "    '') words={} ;;\n",
      fmt::join(names, "|"),
      quoted(fmt::format("{} {}", fmt::join(names, " "), fmt::join(all_names(global), " "))));
  for (const CommandLine& command : commands) {
    text += fmt::format(
        "    {})\n      if [[ $current == -* ]]; then words={}; else\n      case $previous in\n{}      esac; "
        "fi ;;\n",
        command.name, quoted(fmt::format("{}", fmt::join(all_names(command.options), " "))),
        bash_values(command));
  }
  return text +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  [[ -n $words ]] || COMPREPLY=($(compgen -f -- \"$current\"))\n"
         "}\n"
         "complete -o filenames -F _soli soli\n";
}

/// An entry of zsh's _arguments: '(-n --predict)'{-n,--predict}'[what]:value:(a b)'.
std::string zsh_option(const OptionLine& option) {
  std::string what;
  for (const char c : option.what) what += c == '[' ? '(' : c == ']' ? ')' : c == ':' ? ';' : c;
  const std::string action =
      option.values.empty() ? "_files" : fmt::format("({})", fmt::join(option.values, " "));
  if (option.is_part) return quoted(fmt::format("1:part:{}", action)) + " '*:file:_files'";
  if (option.names.empty()) return quoted(fmt::format("*:{}:{}", what, action));
  const std::string tail = fmt::format("[{}]{}", what, option.takes_value ? ":value:" + action : "");
  if (option.names.size() == 1) return quoted(option.names.front() + tail);
  return fmt::format("{}{{{}}}{}", quoted(fmt::format("({})", fmt::join(option.names, " "))),
                     fmt::join(option.names, ","), quoted(tail));
}

std::string zsh_script(const std::vector<CommandLine>& commands, const std::vector<OptionLine>& global) {
  std::string text = "#compdef soli\n_soli() {\n  local -a commands=(\n";
  for (const CommandLine& command : commands)
    text += "    " + quoted(command.name + ":" + command.what) + "\n";
  text += "  )\n  _arguments -C";
  for (const OptionLine& option : global) text += " \\\n    " + zsh_option(option);
  text +=
      " \\\n    '1:command:->command' '*::argument:->arguments'\n  case $state in\n"
      "    command) _describe command commands ;;\n    arguments) case $words[1] in\n";
  for (const CommandLine& command : commands) {
    text += "      " + command.name + ") _arguments";
    for (const OptionLine& option : command.options) text += " \\\n        " + zsh_option(option);
    text += " ;;\n";
  }
  return text + "    esac ;;\n  esac\n}\ncompdef _soli soli\n";
}

std::string fish_option(const OptionLine& option, const std::string& condition) {
  if (option.names.empty()) {
    if (option.values.empty()) return "";
    return fmt::format("complete -c soli -n {}{} -a {}\n", quoted(condition), option.is_part ? "" : " -f",
                       quoted(fmt::format("{}", fmt::join(option.values, " "))));
  }
  std::string text = "complete -c soli -n " + quoted(condition);
  for (const std::string& name : option.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.values.empty()) {
    text += " -x -a " + quoted(fmt::format("{}", fmt::join(option.values, " ")));
  } else if (option.takes_value) {
    text += " -r";
  }
  return text + " -d " + quoted(option.what) + "\n";
}

std::string fish_script(const std::vector<CommandLine>& commands, const std::vector<OptionLine>& global) {
  std::string text;
  for (const OptionLine& option : global) text += fish_option(option, "__fish_use_subcommand");
  for (const CommandLine& command : commands) {
    text += fmt::format("complete -c soli -n __fish_use_subcommand -f -a {} -d {}\n", command.name,
                        quoted(command.what));
    for (const OptionLine& option : command.options) {
      text += fish_option(option, "__fish_seen_subcommand_from " + command.name);
    }
  }
  return text;
}

}  // namespace

std::string completion_script(const CLI::App& program, const std::string& shell) {
  const std::vector<CommandLine> commands = commands_of(program);
  const std::vector<OptionLine> global = options_of(program);
  if (shell == "bash") return bash_script(commands, global);
  if (shell == "zsh") return zsh_script(commands, global);
  return fish_script(commands, global);
}

}  // namespace soli::cli
