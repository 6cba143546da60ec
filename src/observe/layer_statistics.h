#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "observe/activation_report.h"

namespace soli {

/// Figures of one MoE layer from the calls of its tokens, added in ascending order of position.
class LayerStatistics {
 public:
  LayerStatistics(int64_t layer, int64_t n_experts);

  void add(int64_t position, std::span<const ExpertCall> calls);
  /// What is added from here on follows nothing of before.
  void begin_sequence() { previous_position_ = kNoPosition; }
  LayerActivation result() const;
  /// Calls of each expert, [n_experts].
  const std::vector<int64_t>& calls() const { return calls_; }

 private:
  void compare_with_previous(int32_t top1);

  int64_t layer_;
  std::vector<int64_t> calls_;  // [n_experts]
  int64_t n_tokens_ = 0;

  static constexpr int64_t kNoPosition = -2;  // before none that can be

  int64_t previous_position_ = kNoPosition;
  int32_t previous_top1_ = -1;
  std::vector<int32_t> previous_;  // expert set, ascending
  std::vector<int32_t> current_;
  int64_t n_pairs_ = 0;  // of consecutive tokens
  double overlap_sum_ = 0;
  int64_t top1_changes_ = 0;
};

}  // namespace soli
