#pragma once

#include <cstdint>

#include "model/spec.h"
#include "ops/attention.h"

namespace soli {

/// How a KV page is laid out: kKvPagePositions positions of one sequence, all layers one after the other.
/// With latent attention the latent vector is there twice, as a key, packed by lanes, and as a value.
struct KvLayout {
  KvShape shape;  // of one layer
  int64_t n_layers = 0;

  KvLayout(const ModelSpec& spec, KvType type)
      : shape{.type = type,
              .n_kv_heads = spec.n_kv_heads,
              .head_dim = spec.head_dim,
              .value_dim = spec.value_dim},
        n_layers(spec.n_layers) {}

  int64_t layer_offset(int64_t layer) const { return layer * shape.layer_page_bytes(); }
  int64_t page_bytes() const { return n_layers * shape.layer_page_bytes(); }
  /// KV bytes per position of a sequence.
  int64_t position_bytes() const { return page_bytes() / kKvPagePositions; }
};

}  // namespace soli
