#include "reference/latent_attention.h"

#include "reference/math.h"

namespace soli::reference {
namespace {

/// The queries' projected row, through a latent of its own where there is one.
Vector query_row(const TensorFile& file, const AttentionSpec& spec, int64_t layer, const Vector& x) {
  if (file.has(in_layer(layer, "attn_q.weight")))
    return multiply(file.matrix(in_layer(layer, "attn_q.weight")), x);
  const Vector latent = rms_norm(multiply(file.matrix(in_layer(layer, "attn_q_a.weight")), x), spec.epsilon,
                                 file.vector(in_layer(layer, "attn_q_a_norm.weight")));
  return multiply(file.matrix(in_layer(layer, "attn_q_b.weight")), latent);
}

/// One head's key without its rotated part.
Vector plain_key(const TensorFile& file, const AttentionSpec& spec, int64_t layer, int64_t head,
                 const Vector& latent) {
  const int64_t n_plain = spec.head_dim - spec.n_rotated;
  if (file.has(in_layer(layer, "attn_kv_b.weight"))) {
    const int64_t first = head * (n_plain + spec.value_dim);
    return multiply(file.matrix(in_layer(layer, "attn_kv_b.weight")).rows_from(first, n_plain), latent);
  }
  // Stored as what a query is multiplied with, [rank][n_plain].
  return multiply_transposed(file.matrix(in_layer(layer, "attn_k_b.weight"), head), latent);
}

Vector value(const TensorFile& file, const AttentionSpec& spec, int64_t layer, int64_t head,
             const Vector& latent) {
  const int64_t n_plain = spec.head_dim - spec.n_rotated;
  if (file.has(in_layer(layer, "attn_kv_b.weight"))) {
    const int64_t first = head * (n_plain + spec.value_dim) + n_plain;
    return multiply(file.matrix(in_layer(layer, "attn_kv_b.weight")).rows_from(first, spec.value_dim),
                    latent);
  }
  return multiply(file.matrix(in_layer(layer, "attn_v_b.weight"), head), latent);
}

}  // namespace

QueriesKeysValues latent_heads(const TensorFile& file, const AttentionSpec& spec, int64_t layer,
                               const std::vector<Vector>& rows) {
  const int64_t n_plain = spec.head_dim - spec.n_rotated;
  const Vector norm = file.vector(in_layer(layer, "attn_kv_a_norm.weight"));
  QueriesKeysValues out;
  for (size_t t = 0; t < rows.size(); ++t) {
    const auto position = static_cast<int64_t>(t);
    auto& queries = out.queries.emplace_back();
    auto& keys = out.keys.emplace_back();
    auto& values = out.values.emplace_back();
    const Vector q = query_row(file, spec, layer, rows[t]);
    const Vector compressed = multiply(file.matrix(in_layer(layer, "attn_kv_a_mqa.weight")), rows[t]);
    const Vector latent = rms_norm(part(compressed, 0, spec.latent_rank), spec.epsilon, norm);
    Vector rotated_key = part(compressed, spec.latent_rank, spec.n_rotated);  // one for all heads
    rotate(spec.rope, position, 0, rotated_key);
    for (int64_t h = 0; h < spec.n_heads; ++h) {
      queries.push_back(part(q, h * spec.head_dim, spec.head_dim));
      rotate(spec.rope, position, n_plain, queries.back());
      keys.push_back(plain_key(file, spec, layer, h, latent));
      keys.back().insert(keys.back().end(), rotated_key.begin(), rotated_key.end());
      values.push_back(value(file, spec, layer, h, latent));
    }
  }
  return out;
}

}  // namespace soli::reference
