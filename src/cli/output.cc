#include "cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/utf8.h"

namespace soli::cli {
namespace {

constexpr size_t kMaxMessageBytes = 8192;  // paths have up to 4096

int first_write_error = 0;  // an errno; stdio itself remembers only that there was one

/// Bytes of the control character that `text` starts with, 0 if it starts with none: C0 except newline and
/// tab, DEL, and C1 (U+0080 to U+009F), which some terminals obey too.
size_t control_character_bytes(std::string_view text) {
  const auto code = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if ((code(0) < 0x20 && text[0] != '\n' && text[0] != '\t') || code(0) == 0x7f) return 1;
  return text.size() > 1 && code(0) == 0xc2 && code(1) < 0xa0 ? 2 : 0;
}

void write_to_terminal(std::string_view text) {
  while (!text.empty()) {
    const size_t n_control = control_character_bytes(text);
    write_output(n_control > 0 ? "\uFFFD" : text.substr(0, 1));
    text.remove_prefix(std::max<size_t>(1, n_control));
  }
}

void flush() {
  if (std::fflush(stdout) != 0 && first_write_error == 0) first_write_error = errno;
}

}  // namespace

void write_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && first_write_error == 0) {
    first_write_error = errno;
  }
}

void write_note(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

void print_error(const Error& error) { print_note("soli: {}\n", printable(error.message, kMaxMessageBytes)); }

void print_json(const nlohmann::ordered_json& value) {
  const std::string text = value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  write_output(text);
  write_output("\n");
}

void write_text(std::string_view text) {
  static const bool to_terminal = ::isatty(STDOUT_FILENO) == 1;
  if (to_terminal) {
    write_to_terminal(text);
  } else {
    write_output(text);
  }
  flush();
}

bool may_colour_output() {
  const char* const no_colour = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0');
}

Status flush_output() {
  flush();
  if (first_write_error == 0 && std::ferror(stdout) == 0) return {};
  return fail(ErrorKind::kIo, "standard output: cannot write: {}",
              std::strerror(first_write_error == 0 ? EIO : first_write_error));
}

}  // namespace soli::cli
