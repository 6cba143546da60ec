#pragma once

// The diagnosis of a text, as people and programs read it. docs/diagnosing.md has the definitions.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "observe/change_points.h"
#include "observe/diagnosis_recorder.h"

namespace soli {

struct DiagnosisReport {
  std::string model;
  std::vector<bool> has_experts;  // [layers]
  int64_t n_experts = 0;          // of a layer that has some; 0: a dense model
  int64_t experts_per_token = 0;
  int64_t n_prompt = 0;  // tokens of the text; those after them were generated
  int64_t n_given = 0;   // tokens that the text had before it was cut
  double active_threshold = 0;
  uint64_t seed = 0;  // of the permutations
  TokenDiagnosis tokens;
  std::vector<std::string> texts;        // [tokens] UTF-8; "" where a token ends within a character
  std::map<int32_t, std::string> names;  // UTF-8 of each token that is said
  std::vector<ChangePoint> changes;      // by position

  int64_t n_layers() const { return tokens.n_layers; }
  bool is_cut() const { return n_given > n_prompt; }
  /// Number of the part between change points.
  int64_t segment_of(int64_t position) const;
  /// The expert with the largest weight of a token in a layer, the first on a tie; none where it chose none.
  std::optional<int32_t> leading_expert(int64_t position, int64_t layer) const;
};

/// Experts of one layer that lead most tokens, those of most tokens first, the lower id on a tie.
struct LeadingExpert {
  int32_t expert = 0;
  int64_t n_tokens = 0;
};
std::vector<LeadingExpert> leading_experts(const DiagnosisReport& report, int64_t layer);

/// Colours that people who see few colours tell apart (Okabe, Ito 2008), without their black, each with the
/// one nearest to it among the 256 of terminals. The last one, a grey, is for all others.
struct NamedColour {
  const char* html;
  int terminal;
  bool is_dark;  // text on it is white
};
inline constexpr std::array<NamedColour, 8> kDiagnosisColours = {{{"#E69F00", 214, false},
                                                                  {"#56B4E9", 74, false},
                                                                  {"#009E73", 36, false},
                                                                  {"#F0E442", 227, false},
                                                                  {"#0072B2", 25, true},
                                                                  {"#D55E00", 166, false},
                                                                  {"#CC79A7", 175, false},
                                                                  {"#BBBBBB", 250, false}}};

/// What of it a terminal shows.
struct DiagnosisView {
  enum class ColourBy { kExperts, kSegments };
  int64_t layer = 0;                     // whose experts colour the text, and whose calls are listed
  std::optional<int64_t> position = {};  // the token whose calls in all layers are listed instead
  bool colour = false;                   // ANSI escapes; else marks stand at change points
  ColourBy colour_by = ColourBy::kExperts;
};
std::string render_text(const DiagnosisReport& report, const DiagnosisView& view);

/// Everything, as one JSON object, a line for each token, so that no second copy stands in memory.
void write_json(const DiagnosisReport& report, FunctionRef<void(std::string_view)> write);

/// One page that needs nothing else; `layer` is shown first. Fails with kNotFound or kIo; no half file is
/// ever seen.
Status write_html(const DiagnosisReport& report, int64_t layer, const std::string& path);

}  // namespace soli
