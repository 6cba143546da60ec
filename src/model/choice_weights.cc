#include "model/choice_weights.h"

#include <algorithm>
#include <cmath>

namespace soli {
namespace {

/// softmax of the chosen experts' logits.
void softmax_of_chosen(const float* logits, std::span<const int32_t> ids, std::span<float> weights) {
  double sum = 0;
  float largest = logits[ids[0]];
  for (const int32_t id : ids) largest = std::max(largest, logits[id]);
  for (size_t i = 0; i < ids.size(); ++i) {
    weights[i] =
        static_cast<float>(std::exp(static_cast<double>(logits[ids[i]]) - static_cast<double>(largest)));
    sum += static_cast<double>(weights[i]);
  }
  for (float& weight : weights) weight = static_cast<float>(static_cast<double>(weight) / sum);
}

}  // namespace

void weigh_experts(const RouterSpec& spec, const float* logits, const float* scores,
                   std::span<const int32_t> ids, std::span<float> weights) {
  if (ids.empty()) return;
  if (spec.gating == Gating::kSoftmaxChosen) {
    softmax_of_chosen(logits, ids, weights);
  } else {
    for (size_t i = 0; i < ids.size(); ++i) weights[i] = scores[ids[i]];
  }
  if (spec.renormalise) {
    double sum = 0;
    for (const float weight : weights) sum += static_cast<double>(weight);
    // All sigmoids may underflow to 0: then no routed expert counts, and nothing is divided by 0.
    for (float& weight : weights)
      weight = sum > 0 ? static_cast<float>(static_cast<double>(weight) / sum) : 0.0F;
  }
  for (float& weight : weights) weight = static_cast<float>(static_cast<double>(weight) * spec.weight_scale);
}

}  // namespace soli
