#pragma once

#include <cstdint>
#include <string>

#include "cli/model_options.h"

namespace soli::cli {

/// Positions of a window, and tokens of a domain, where nobody says otherwise.
inline constexpr int64_t kProfileWindow = 512;
inline constexpr int64_t kProfileTokens = 4096;
inline constexpr double kProfileSeconds = 180;  // of --three-minute

struct ProfileOptions {
  ModelOptions model;
  std::string folder;
  int64_t max_tokens = 0;  // of a domain; 0: all
  bool max_tokens_given = false;
  bool three_minutes = false;
  int64_t window = 0;  // 0: kProfileWindow, or the context where that is shorter
  int64_t n_parallel = 4;
  int64_t seed = 0;
  bool layers = false;
  bool json = false;
  std::string html;  // files, or ""
  std::string out_csv;
  std::string save;
  bool resume = false;
  std::string against;

  /// kProfileTokens, but with --three-minute what there is time for.
  int64_t tokens_of_domain() const {
    return max_tokens_given ? max_tokens : three_minutes ? 0 : kProfileTokens;
  }
};

}  // namespace soli::cli
