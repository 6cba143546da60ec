// Qwen2 and Qwen2.5, dense: a bias on q, k and v.

#include "model/family_parts.h"

namespace soli {

Family qwen2_family() {
  Family family = decoder_family("qwen2");
  require_qkv_bias(family);
  return family;
}

}  // namespace soli
