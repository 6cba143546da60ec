#include "reference/attention.h"

#include <cmath>
#include <limits>

#include "reference/latent_attention.h"
#include "reference/math.h"

namespace soli::reference {
namespace {

/// Rows [first, first + n) of the projections of q, k and v, which some files hold in one tensor.
Vector project(const TensorFile& file, int64_t layer, const std::string& name, int64_t first, int64_t n,
               const Vector& x) {
  if (const std::string fused = in_layer(layer, "attn_qkv.weight"); file.has(fused)) {
    Vector y = multiply(file.matrix(fused).rows_from(first, n), x);
    const Vector bias = file.vector_or_none(in_layer(layer, "attn_qkv.bias"));
    if (!bias.empty()) add_to(y, part(bias, first, n));
    return y;
  }
  Vector y = multiply(file.matrix(in_layer(layer, name + ".weight")), x);
  SOLI_CHECK(static_cast<int64_t>(y.size()) == n, "{} of layer {} has {} rows, not {}", name, layer, y.size(),
             n);
  add_to(y, file.vector_or_none(in_layer(layer, name + ".bias")));
  return y;
}

std::vector<Vector> split(const Vector& row, int64_t n_heads) {
  const int64_t dim = static_cast<int64_t>(row.size()) / n_heads;
  std::vector<Vector> heads;
  for (int64_t h = 0; h < n_heads; ++h) heads.push_back(part(row, h * dim, dim));
  return heads;
}

/// Queries or keys of one position: normalised over the row or per head, as the norm's size says, and
/// rotated.
std::vector<Vector> rotated_heads(const AttentionSpec& spec, Vector row, int64_t n_heads, const Vector& norm,
                                  int64_t position) {
  const bool per_head = static_cast<int64_t>(norm.size()) == spec.head_dim;
  if (!norm.empty() && !per_head) row = rms_norm(row, spec.epsilon, norm);
  std::vector<Vector> heads = split(row, n_heads);
  for (Vector& head : heads) {
    if (per_head && !spec.norm_after_rope) head = rms_norm(head, spec.epsilon, norm);
    rotate(spec.rope, position, 0, head);
    if (per_head && spec.norm_after_rope) head = rms_norm(head, spec.epsilon, norm);
  }
  return heads;
}

QueriesKeysValues plain_heads(const TensorFile& file, const AttentionSpec& spec, int64_t layer,
                              const std::vector<Vector>& rows) {
  const Vector q_norm = file.vector_or_none(in_layer(layer, "attn_q_norm.weight"));
  const Vector k_norm = file.vector_or_none(in_layer(layer, "attn_k_norm.weight"));
  const int64_t q_row = spec.n_heads * spec.head_dim;
  const int64_t k_row = spec.n_kv_heads * spec.head_dim;
  const int64_t v_row = spec.n_kv_heads * spec.value_dim;
  QueriesKeysValues out;
  for (size_t t = 0; t < rows.size(); ++t) {
    const auto position = static_cast<int64_t>(t);
    const Vector q = project(file, layer, "attn_q", 0, q_row, rows[t]);
    const Vector k = project(file, layer, "attn_k", q_row, k_row, rows[t]);
    const Vector v = project(file, layer, "attn_v", q_row + k_row, v_row, rows[t]);
    out.queries.push_back(rotated_heads(spec, q, spec.n_heads, q_norm, position));
    out.keys.push_back(rotated_heads(spec, k, spec.n_kv_heads, k_norm, position));
    out.values.push_back(split(v, spec.n_kv_heads));
  }
  return out;
}

bool is_visible(int64_t query, int64_t key, int64_t window) {
  return key <= query && (window == 0 || query - key < window);
}

/// What query head `head` mixes, [positions][value_dim]. A sink is one more score, without a value.
std::vector<Vector> mix(const QueriesKeysValues& in, size_t head, size_t kv_head, double scale,
                        int64_t window, const Vector& sinks) {
  const size_t n = in.queries.size();
  std::vector<Vector> mixed;
  for (size_t t = 0; t < n; ++t) {
    Vector scores(n, -std::numeric_limits<double>::infinity());
    for (size_t s = 0; s < n; ++s) {
      if (is_visible(static_cast<int64_t>(t), static_cast<int64_t>(s), window))
        scores[s] = scale * dot(in.queries[t][head], in.keys[s][kv_head]);
    }
    if (!sinks.empty()) scores.push_back(sinks.at(head));
    const Vector shares = softmax(scores);
    Vector& sum = mixed.emplace_back(in.values[t][kv_head].size(), 0.0);
    for (size_t s = 0; s < n; ++s) add_to(sum, in.values[s][kv_head], shares[s]);
  }
  return mixed;
}

}  // namespace

AttentionSpec attention_spec(const TensorFile& file, const FamilyRules& rules, int64_t context_length) {
  AttentionSpec spec;
  spec.n_heads = file.integer("attention.head_count");
  spec.n_kv_heads = file.integer_or("attention.head_count_kv", spec.n_heads);
  spec.head_dim = file.integer_or("attention.key_length", file.integer("embedding_length") / spec.n_heads);
  spec.n_rotated = file.integer_or("rope.dimension_count", spec.head_dim);
  if (rules.whole_head_rotates) spec.head_dim = spec.n_rotated;
  spec.value_dim = file.integer_or("attention.value_length", spec.head_dim);
  spec.latent_rank = file.integer_or("attention.kv_lora_rank", 0);
  if (spec.latent_rank > 0) {
    spec.n_kv_heads = spec.n_heads;
    spec.head_dim = file.integer_or("attention.key_length_mla", spec.head_dim);
    spec.value_dim = file.integer_or("attention.value_length_mla", spec.value_dim);
  }
  spec.epsilon = file.number_or("attention.layer_norm_rms_epsilon", 0);
  if (rules.window_on_even_layers) spec.window = file.integer("attention.sliding_window");
  spec.norm_after_rope = rules.norm_after_rope;
  spec.rope = make_rope(file, spec.n_rotated, rules.adjacent_pairs, context_length);

  const double scale = file.number_or("attention.scale", 0);
  spec.score_scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(spec.head_dim));
  if (file.has_key("rope.scaling.yarn_log_multiplier")) {
    // The key holds 0.1 * mscale_all_dim.
    const double multiplier = file.number_or("rope.scaling.yarn_log_multiplier", 0);
    const double mscale = 1 + multiplier * std::log(file.number_or("rope.scaling.factor", 1));
    spec.score_scale *= mscale * mscale;
  }
  return spec;
}

std::vector<Vector> attention(const TensorFile& file, const AttentionSpec& spec, int64_t layer,
                              const std::vector<Vector>& rows) {
  const QueriesKeysValues heads =
      spec.latent_rank > 0 ? latent_heads(file, spec, layer, rows) : plain_heads(file, spec, layer, rows);
  const Vector sinks = file.vector_or_none(in_layer(layer, "attn_sinks.weight"));
  const int64_t window = layer % 2 == 0 ? spec.window : 0;
  std::vector<Vector> mixed(rows.size());
  for (int64_t h = 0; h < spec.n_heads; ++h) {
    const int64_t kv_head = h / (spec.n_heads / spec.n_kv_heads);
    const std::vector<Vector> of_head =
        mix(heads, static_cast<size_t>(h), static_cast<size_t>(kv_head), spec.score_scale, window, sinks);
    for (size_t t = 0; t < rows.size(); ++t)
      mixed[t].insert(mixed[t].end(), of_head[t].begin(), of_head[t].end());
  }
  std::vector<Vector> out;
  for (const Vector& row : mixed) {
    out.push_back(multiply(file.matrix(in_layer(layer, "attn_output.weight")), row));
    add_to(out.back(), file.vector_or_none(in_layer(layer, "attn_output.bias")));
  }
  return out;
}

}  // namespace soli::reference
