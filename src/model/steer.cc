#include "model/steer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/check.h"
#include "base/rng.h"
#include "model/router.h"

namespace soli {
namespace {

// The logit of a masked expert: its probability is 0, and it is still a number.
constexpr float kMaskedLogit = -1e30F;

/// One row of one layer on its way from the gate's logits to the scores that it chooses by.
class SteeredRow {
 public:
  SteeredRow(const BatchRow& row, int64_t layer, std::span<float> logits, std::span<float> scores)
      : row_(row),
        steering_(*row.steering),
        layer_(row.steering->layer(layer)),
        layer_number_(layer),
        logits_(logits),
        scores_(scores) {}

  void edit(const kernels::KernelTable& kernels, const RouterSpec& spec) const {
    if (layer_.looks_back())
      SOLI_CHECK(!row_.states.empty(), "a policy that looks back needs steering state");
    edit_logits();
    score_row(kernels, spec, logits_.data(), scores_.data());
    if (layer_.smoothing != 0) {
      if (row_.position > 0) smooth();  // the first token has nothing before it
      if (spec.gating == Gating::kSoftmaxChosen) set_logits_by_scores();
    }
    if (layer_.looks_back()) std::copy(scores_.begin(), scores_.end(), scores_at(row_.position));
  }

 private:
  void edit_logits() const {
    if (layer_.noise != 0) add_noise();
    if (layer_.context_gate != 0) add_context();
    for (size_t e = 0; e < layer_.bias.size(); ++e) logits_[e] += layer_.bias[e];
    if (layer_.temperature != 1) {
      for (float& logit : logits_)
        logit = static_cast<float>(static_cast<double>(logit) / layer_.temperature);
    }
    for (size_t e = 0; e < layer_.masked.size(); ++e) {
      if (layer_.masked[e] != 0) logits_[e] = kMaskedLogit;
    }
  }

  void add_noise() const {
    for (size_t e = 0; e < logits_.size(); ++e) {
      const double noise =
          steering_noise(steering_.noise_seed(), row_.position, layer_number_, static_cast<int64_t>(e));
      logits_[e] = static_cast<float>(static_cast<double>(logits_[e]) + layer_.noise * noise);
    }
  }

  void add_context() const {
    const int64_t begin = std::max<int64_t>(0, row_.position - steering_.context_gate_tokens());
    if (begin == row_.position) return;
    const double factor = layer_.context_gate / static_cast<double>(row_.position - begin);
    for (size_t e = 0; e < logits_.size(); ++e) {
      double sum = 0;
      for (int64_t position = begin; position < row_.position; ++position)
        sum += static_cast<double>(scores_at(position)[e]);
      logits_[e] = static_cast<float>(static_cast<double>(logits_[e]) + factor * sum);
    }
  }

  void smooth() const {
    const float* const before = scores_at(row_.position - 1);
    const double a = layer_.smoothing;
    for (size_t e = 0; e < scores_.size(); ++e) {
      scores_[e] =
          static_cast<float>((1 - a) * static_cast<double>(scores_[e]) + a * static_cast<double>(before[e]));
    }
  }

  /// The logits of which the scores are the softmax, for models that choose and weigh by logits.
  void set_logits_by_scores() const {
    for (size_t e = 0; e < logits_.size(); ++e)
      logits_[e] = std::log(std::max(scores_[e], std::numeric_limits<float>::min()));
  }

  float* scores_at(int64_t position) const {
    return steering_.layout().scores(row_.states, position, layer_.moe_layer);
  }

  const BatchRow& row_;
  const Steering& steering_;
  const LayerSteering& layer_;
  const int64_t layer_number_;
  const std::span<float> logits_;
  const std::span<float> scores_;
};

}  // namespace

void Steer::begin_step(std::span<const BatchRow> rows) {
  rows_ = rows;
  begins_.clear();
  any_ = std::any_of(rows.begin(), rows.end(), [](const BatchRow& row) { return row.steering != nullptr; });
  if (!any_) return;
  for (size_t r = 0; r < rows.size(); ++r) {
    const bool goes_on = r > 0 && rows[r].steering != nullptr && rows[r].steering->is_stateful() &&
                         rows[r].request == rows[r - 1].request;
    if (!goes_on) begins_.push_back(static_cast<int64_t>(r));
  }
  begins_.push_back(static_cast<int64_t>(rows.size()));
}

bool Steer::clamps(int64_t layer) const {
  return any_ && std::any_of(rows_.begin(), rows_.end(), [&](const BatchRow& row) {
           return row.steering != nullptr && row.steering->layer(layer).input_clamp != 0;
         });
}

void Steer::clamp(OpContext& context, int64_t layer, MatrixView<float> gate_input) const {
  context.team.parallel_for(gate_input.rows, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const Steering* const steering = rows_[static_cast<size_t>(r)].steering;
      if (steering == nullptr || steering->layer(layer).input_clamp == 0) continue;
      const auto most = static_cast<float>(steering->layer(layer).input_clamp);
      float* const x = gate_input.row(r);
      // Values that are no numbers stay what they are, so that the row fails.
      for (int64_t i = 0; i < gate_input.cols; ++i) {
        if (x[i] > most) x[i] = most;
        if (x[i] < -most) x[i] = -most;
      }
    }
  });
}

void Steer::edit_scores(OpContext& context, const RouterSpec& spec, int64_t layer, MatrixView<float> logits,
                        MatrixView<float> scores) const {
  if (!any_) return;
  const auto edit = [&](int64_t r) {
    const BatchRow& row = rows_[static_cast<size_t>(r)];
    if (row.steering == nullptr || !row.steering->layer(layer).edits_scores()) return;
    if (!context.kernels.all_finite(logits.row(r), logits.cols)) return;
    const auto n = static_cast<size_t>(logits.cols);
    SteeredRow(row, layer, {logits.row(r), n}, {scores.row(r), n}).edit(context.kernels, spec);
  };
  context.team.parallel_for(
      static_cast<int64_t>(begins_.size()) - 1, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begins_[static_cast<size_t>(begin)]; r < begins_[static_cast<size_t>(end)]; ++r)
          edit(r);
      });
}

double steering_noise(uint64_t seed, int64_t position, int64_t layer, int64_t expert) {
  uint64_t bits = hash_u64(seed);
  for (const int64_t part : {position, layer, expert}) bits = hash_u64(bits ^ static_cast<uint64_t>(part));
  const auto in_unit = [](uint64_t x) { return (static_cast<double>(x >> 11) + 0.5) * 0x1p-53; };
  return std::sqrt(-2 * std::log(in_unit(bits))) * std::cos(2 * std::numbers::pi * in_unit(hash_u64(bits)));
}

}  // namespace soli
