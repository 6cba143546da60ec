#pragma once

// Random model shapes, over all axes along which families differ.

#include <rapidcheck.h>

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace soli::reference {

enum class Scaling { kNone, kLinear, kYarn, kLongrope };

/// A model and a run of it. Sizes are elements unless their name says otherwise.
struct WalkShape {
  std::string family;
  uint64_t seed = 0;  // of weights and tokens
  int64_t n_layers = 1;
  int64_t hidden = 1;
  int64_t vocab = 1;
  bool tied_output = false;

  int64_t n_heads = 1;
  int64_t n_kv_heads = 1;
  int64_t head_dim = 2;
  int64_t value_dim = 2;
  int64_t n_rotated = 2;
  int64_t window = 0;    // 0: the family has none
  int64_t latent = 0;    // rank of keys and values; 0: no MLA
  int64_t q_latent = 0;  // rank of queries; 0: none
  bool qk_norm = false;
  bool qkv_bias = false;
  bool o_bias = false;
  Scaling scaling = Scaling::kNone;
  double rope_base = 10000;
  double factor = 1;             // of linear scaling and YaRN
  int64_t original_context = 0;  // positions
  int64_t context = 130;         // positions
  bool log_multiplier = false;   // of YaRN
  bool rope_factors = false;     // rope_freqs.weight

  int64_t n_experts = 0;
  int64_t k = 0;
  int64_t expert_width = 0;
  int64_t n_shared = 0;  // experts, each of expert_width
  int64_t ffn_width = 1;
  int64_t n_dense = 0;   // leading layers
  int64_t n_nextn = 0;   // layers behind the model's own
  int64_t n_groups = 0;  // 0: no key
  int64_t n_groups_used = 0;
  int64_t gating = 0;        // expert_gating_func, 0: no key
  bool renormalise = false;  // expert_weights_norm
  double weight_scale = 0;   // 0: no key
  bool selection_bias = false;
  bool twins = false;  // every second expert has the score of the one before it

  bool fused_qkv = false;
  bool fused_gate_up = false;
  bool single_experts = false;  // one tensor per expert
  bool old_latent_layout = false;

  int64_t n_tokens = 1;
  int64_t chunk_rows = 1;  // of the run in chunks
  int n_threads = 1;
  int isa = 0;  // index, modulo their number on this machine
};

std::ostream& operator<<(std::ostream& out, const WalkShape& shape);

/// Shapes of one family.
rc::Gen<WalkShape> shapes_of(const std::string& family);

}  // namespace soli::reference
