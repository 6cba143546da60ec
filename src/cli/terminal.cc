#include "cli/terminal.h"

#include <histedit.h>
#include <sys/stat.h>

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

namespace soli::cli {
namespace {

constexpr int kHistoryLines = 1000;

/// Where the history is kept, its folder made; "" where there is no such place.
std::string history_path() {
  const char* const state = std::getenv("XDG_STATE_HOME");
  const char* const home = std::getenv("HOME");
  std::filesystem::path folder;
  if (state != nullptr && *state == '/') {
    folder = state;
  } else if (home != nullptr && *home != '\0') {
    folder = std::filesystem::path(home) / ".local" / "state";
  } else {
    return "";
  }
  std::error_code error;
  std::filesystem::create_directories(folder / "soli", error);
  return error ? "" : (folder / "soli" / "history").string();
}

/// libedit works on wide characters: without a locale that knows UTF-8, typed text would be taken apart.
void use_utf8_locale() {
  std::setlocale(LC_CTYPE, "");
  if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineEditor::Impl {
  std::string prompt;
  std::string history_file;
  EditLine* editor = nullptr;
  History* history = nullptr;
  HistEvent event = {};
  bool interrupted = false;

  static Impl& of(EditLine* editor) {
    void* data = nullptr;
    el_get(editor, EL_CLIENTDATA, &data);
    return *static_cast<Impl*>(data);
  }
  static char* show_prompt(EditLine* editor) { return of(editor).prompt.data(); }
  static unsigned char on_interrupt(EditLine* editor, int) {
    of(editor).interrupted = true;
    return CC_EOF;
  }
};

LineEditor::LineEditor(std::string prompt) : impl_(std::make_unique<Impl>()) {
  use_utf8_locale();
  impl_->prompt = std::move(prompt);
  impl_->history_file = history_path();
  impl_->history = history_init();
  history(impl_->history, &impl_->event, H_SETSIZE, kHistoryLines);
  history(impl_->history, &impl_->event, H_SETUNIQUE, 1);
  if (!impl_->history_file.empty()) {
    history(impl_->history, &impl_->event, H_LOAD, impl_->history_file.c_str());
  }
  EditLine* const editor = impl_->editor = el_init("soli", stdin, stdout, stderr);
  el_set(editor, EL_CLIENTDATA, impl_.get());
  el_set(editor, EL_PROMPT, &Impl::show_prompt);
  el_set(editor, EL_EDITOR, "emacs");
  el_set(editor, EL_HIST, history, impl_->history);
  // While a line is edited Ctrl-C is a key like others: it discards the line, and no signal ends the program.
  el_set(editor, EL_ADDFN, "soli-interrupt", "discard the line", &Impl::on_interrupt);
  el_set(editor, EL_BIND, "^C", "soli-interrupt", nullptr);
  el_set(editor, EL_SETTY, "-d", "-isig", nullptr);
}

LineEditor::~LineEditor() {
  el_end(impl_->editor);
  history_end(impl_->history);
}

LineEditor::Outcome LineEditor::read_line(std::string& line) {
  impl_->interrupted = false;
  int n_bytes = 0;
  const char* const text = el_gets(impl_->editor, &n_bytes);
  if (impl_->interrupted) {
    std::fputc('\n', stdout);
    el_reset(impl_->editor);
    return Outcome::kInterrupted;
  }
  if (text == nullptr || n_bytes <= 0) return Outcome::kEnd;
  line.assign(text, static_cast<size_t>(n_bytes));
  if (line.find_first_not_of(" \t\n") != std::string::npos) {
    history(impl_->history, &impl_->event, H_ENTER, line.c_str());
    // Saved line by line: a history must outlive a killed program.
    if (!impl_->history_file.empty()) {
      history(impl_->history, &impl_->event, H_SAVE, impl_->history_file.c_str());
    }
  }
  if (!line.empty() && line.back() == '\n') line.pop_back();
  return Outcome::kLine;
}

}  // namespace soli::cli
