#include "reference/forward.h"

#include "reference/attention.h"
#include "reference/math.h"

namespace soli::reference {
namespace {

/// Factors of Granite's files; 1 in others.
struct Scales {
  double embedding = 1;
  double residual = 1;
  double logits = 1;
};

double one_for_zero(double value) { return value == 0 ? 1 : value; }

Scales scales_of(const TensorFile& file) {
  return {.embedding = one_for_zero(file.number_or("embedding_scale", 0)),
          .residual = one_for_zero(file.number_or("residual_scale", 0)),
          .logits = 1 / one_for_zero(file.number_or("logit_scale", 0))};
}

/// Norms may have a bias.
std::vector<Vector> norm_rows(const TensorFile& file, const std::string& name, double epsilon,
                              const std::vector<Vector>& rows) {
  const Vector weight = file.vector(name + ".weight");
  const Vector bias = file.vector_or_none(name + ".bias");
  std::vector<Vector> out;
  for (const Vector& row : rows) out.push_back(rms_norm(row, epsilon, weight, bias));
  return out;
}

std::vector<Vector> embed(const TensorFile& file, const std::vector<int32_t>& tokens, double scale) {
  const Matrix table = file.matrix("token_embd.weight");
  std::vector<Vector> rows;
  for (const int32_t token : tokens) {
    SOLI_CHECK(token >= 0 && token < table.rows, "token {}", token);
    Vector& row = rows.emplace_back(static_cast<size_t>(table.cols));
    for (int64_t i = 0; i < table.cols; ++i) row[static_cast<size_t>(i)] = table.at(token, i) * scale;
  }
  return rows;
}

/// The feed-forward of one layer for all positions, of normalised rows.
std::vector<Vector> feed_forward(const TensorFile& file, const RouterSpec& router, int64_t layer,
                                 const std::vector<Vector>& rows, const Choices& preferred,
                                 Choices& choices) {
  const bool dense = router.n_experts == 0 || layer < file.integer_or("leading_dense_block_count", 0);
  std::vector<Vector> out;
  for (size_t t = 0; t < rows.size(); ++t) {
    if (dense) {
      out.push_back(dense_ffn(file, layer, rows[t]));
      continue;
    }
    const std::pair<int64_t, int64_t> place(layer, t);
    const auto theirs = preferred.find(place);
    const Choice choice =
        route(file, router, layer, rows[t], theirs == preferred.end() ? nullptr : &theirs->second);
    out.push_back(routed_experts(file, router, layer, choice, rows[t]));
    add_to(out.back(), shared_expert(file, layer, rows[t]));
    choices[place] = choice;
  }
  return out;
}

std::vector<Vector> head(const TensorFile& file, const std::vector<Vector>& rows, double scale) {
  const bool tied = !file.has("output.weight");
  const Matrix output = file.matrix(tied ? "token_embd.weight" : "output.weight");
  const Vector bias = file.vector_or_none("output.bias");
  std::vector<Vector> logits;
  for (const Vector& row : rows) {
    logits.push_back(multiply(output, row));
    add_to(logits.back(), bias);
    for (double& logit : logits.back()) logit *= scale;
  }
  return logits;
}

}  // namespace

Output forward(const TensorFile& file, const std::vector<int32_t>& tokens, int64_t context_length,
               const Choices& preferred) {
  const FamilyRules& rules = rules_of(file.architecture());
  const AttentionSpec attention_of = attention_spec(file, rules, context_length);
  const RouterSpec router = router_spec(file, rules);
  const Scales scales = scales_of(file);
  const double epsilon = attention_of.epsilon;
  // Layers that predict tokens further ahead are no part of it.
  const int64_t n_layers = file.integer("block_count") - file.integer_or("nextn_predict_layers", 0);

  Output out;
  std::vector<Vector> residual = embed(file, tokens, scales.embedding);
  const auto add = [&](const std::vector<Vector>& rows) {
    for (size_t t = 0; t < rows.size(); ++t) add_to(residual[t], rows[t], scales.residual);
  };
  for (int64_t layer = 0; layer < n_layers; ++layer) {
    add(attention(file, attention_of, layer,
                  norm_rows(file, in_layer(layer, "attn_norm"), epsilon, residual)));
    const bool other_name = file.has(in_layer(layer, "post_attention_norm.weight"));
    const std::string norm = in_layer(layer, other_name ? "post_attention_norm" : "ffn_norm");
    const std::vector<Vector> normed = norm_rows(file, norm, epsilon, residual);
    for (size_t t = 0; t < normed.size(); ++t) out.ffn_inputs[{layer, t}] = {residual[t], normed[t]};
    add(feed_forward(file, router, layer, normed, preferred, out.choices));
  }
  out.logits = head(file, norm_rows(file, "output_norm", epsilon, residual), scales.logits);
  return out;
}

Vector head_of(const TensorFile& file, const Vector& hidden) {
  const double epsilon = attention_spec(file, rules_of(file.architecture()), 1).epsilon;
  return head(file, norm_rows(file, "output_norm", epsilon, {hidden}), scales_of(file).logits).front();
}

double residual_scale(const TensorFile& file) { return scales_of(file).residual; }

}  // namespace soli::reference
