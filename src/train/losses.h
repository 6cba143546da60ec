#pragma once

#include <cstdint>
#include <span>

#include "base/matrix.h"

namespace soli {

/// Balance loss of a layer before its coefficient (Fedus et al. 2021, "Switch Transformers"): E * sum over e
/// of f_e * P_e, where f_e is the share of the routed slots that went to expert e and P_e its mean
/// probability. 1 when uniform, E when all tokens go to one expert with certainty. `probabilities` is
/// [tokens][E], a softmax already; `ids` are the chosen experts of all tokens, in any order. Needs at least
/// one token and one slot.
double balance_loss(MatrixView<const float> probabilities, std::span<const int32_t> ids);

}  // namespace soli
