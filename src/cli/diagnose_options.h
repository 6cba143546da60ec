#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/model_options.h"
#include "observe/diagnosis_report.h"

namespace CLI {
class App;
}

namespace soli::cli {

/// More tokens would make pages that browsers do not like.
inline constexpr int64_t kMostDiagnosedTokens = 4096;

struct DiagnoseOptions {
  ModelOptions model;
  std::optional<std::string> prompt;
  std::string prompt_file;
  bool parse_special = false;
  int64_t n_generated = 0;   // tokens to generate, at most
  int64_t max_tokens = 256;  // of the text and generated
  int64_t layer = -1;        // -1: the last one with experts, or the last one
  int64_t position = -1;     // of the token that is shown in all layers; -1: none
  int64_t n_top = 5;
  double active_above = 0.1;
  int64_t seed = 0;
  DiagnosisView::ColourBy colour_by = DiagnosisView::ColourBy::kExperts;
  bool json = false;
  std::string html;  // a file to write, or ""
};

void add_diagnose_options(CLI::App& app, DiagnoseOptions& options);

}  // namespace soli::cli
