#pragma once

#include <memory>
#include <string>

namespace soli::cli {

/// Reads lines from a terminal with editing and a history (libedit). The history is kept in
/// $XDG_STATE_HOME/soli/history (~/.local/state/soli/history) where that can be written.
class LineEditor {
 public:
  explicit LineEditor(std::string prompt);
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;
  ~LineEditor();

  enum class Outcome { kLine, kInterrupted, kEnd };
  /// The next line without its newline: kLine. kInterrupted: Ctrl-C, the line is discarded. kEnd: Ctrl-D on
  /// an empty line, or the terminal is gone.
  Outcome read_line(std::string& line);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace soli::cli
