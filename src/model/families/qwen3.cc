// Qwen3, dense: queries and keys are normalised per head.

#include "model/family_parts.h"

namespace soli {

Family qwen3_family() {
  Family family = decoder_family("qwen3");
  add_qk_norm(family, QkNorm::kPerHead);
  return family;
}

}  // namespace soli
