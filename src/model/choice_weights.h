#pragma once

#include <cstdint>
#include <span>

#include "model/spec.h"

namespace soli {

/// The factors on the outputs of the chosen experts by the model's rule, from its logits and unbiased scores
/// of all experts: weights[i] is that of ids[i], in whatever order.
void weigh_experts(const RouterSpec& spec, const float* logits, const float* scores,
                   std::span<const int32_t> ids, std::span<float> weights);

}  // namespace soli
