#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cli/perplexity.h"
#include "io/scratch_file.h"

namespace soli::cli {

/// How far a model's distributions of the next token are from reference ones, over the positions of a text.
struct Divergence {
  int64_t n_positions = 0;
  double mean_kl = 0;        // nats, KL(reference || model)
  double mean_kl_error = 0;  // standard error, from how the windows differ, as Perplexity's; 0 for one window
  double p99_kl = 0;         // of the positions
  double largest_kl = 0;
  double top_agreement = 0;  // share of positions at which both have the same most likely token
};

/// What a divergence is made of: of one text, or of several together.
struct DivergenceSamples {
  std::vector<double> kl;             // of the positions compared
  std::vector<WindowLoss> by_window;  // sums of them
  int64_t n_agreed = 0;               // positions with the same most likely token
  int64_t n_identical = 0;            // positions whose logits are the same to the bit

  DivergenceSamples& operator+=(const DivergenceSamples& other);
  Divergence summarise() const;
};

/// The distributions of one run over the windows of a plan, and how those of a second one differ. Keeps the
/// first ones in a temporary file: a vocabulary of floats per position.
class DivergenceMeter {
 public:
  /// Fails where the folder for temporary files has not enough room, naming it.
  static Result<DivergenceMeter> create(const WindowPlan& plan, int64_t vocab_size);

  /// The reference's logits after a position of a window.
  Status set_reference(size_t window, int64_t position, std::span<const float> logits);
  /// The other's. Positions whose next token is not in the window may be left out of both.
  Status compare(size_t window, int64_t position, std::span<const float> logits);

  /// Of all that was compared since the last call; the reference stays.
  DivergenceSamples take_samples();

 private:
  DivergenceMeter(ScratchFile file, const WindowPlan& plan, int64_t vocab_size);
  int64_t offset_of(size_t window, int64_t position) const;

  ScratchFile file_;
  int64_t vocab_size_;
  std::vector<int64_t> first_row_;  // [windows]
  std::vector<float> reference_;    // [vocabulary]
  DivergenceSamples samples_;
};

}  // namespace soli::cli
