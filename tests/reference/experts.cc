#include "reference/experts.h"

#include <numeric>

#include "reference/math.h"

namespace soli::reference {
namespace {

constexpr double kTie = 1e-5;  // of the largest score of a token

/// Indices of the k highest, best first; of equal ones the lower first.
std::vector<int32_t> best(const Vector& scores, int64_t k) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  order.resize(static_cast<size_t>(k));
  return order;
}

Vector scores_of(Gating gating, const Vector& logits) {
  if (gating == Gating::kSoftmax) return softmax(logits);
  if (gating == Gating::kSoftmaxChosen) return logits;
  Vector scores;
  for (const double logit : logits) scores.push_back(sigmoid(logit));
  return scores;
}

/// Only the best groups stay in the race, by the sum of their two best scores.
void mask_groups(const RouterSpec& spec, Vector& scores) {
  if (spec.n_groups <= 1) return;
  const int64_t size = spec.n_experts / spec.n_groups;
  Vector of_groups;
  for (int64_t g = 0; g < spec.n_groups; ++g) {
    const Vector members = part(scores, g * size, size);
    double sum = 0;
    for (const int32_t i : best(members, std::min<int64_t>(2, size))) sum += members[static_cast<size_t>(i)];
    of_groups.push_back(sum);
  }
  const std::vector<int32_t> kept = best(of_groups, spec.n_groups_used);
  for (int64_t e = 0; e < spec.n_experts; ++e) {
    if (std::find(kept.begin(), kept.end(), e / size) == kept.end())
      scores[static_cast<size_t>(e)] = -std::numeric_limits<double>::infinity();
  }
}

std::vector<int32_t> choose(const RouterSpec& spec, Vector scores, const Vector& bias,
                            const Choice* preferred) {
  add_to(scores, bias);
  if (preferred != nullptr) {
    double largest = 0;
    for (const double score : scores) largest = std::max(largest, std::abs(score));
    for (const auto& [expert, weight] : *preferred) scores.at(static_cast<size_t>(expert)) += kTie * largest;
  }
  mask_groups(spec, scores);
  return best(scores, spec.experts_per_token);
}

Vector activate(const Vector& gate, const Vector& up, bool clamped) {
  Vector out;
  for (size_t i = 0; i < gate.size(); ++i) {
    const double g = clamped ? std::min(gate[i], 7.0) : gate[i];
    const double u = clamped ? std::clamp(up[i], -7.0, 7.0) + 1 : up[i];
    out.push_back(g * sigmoid(clamped ? 1.702 * g : g) * u);
  }
  return out;
}

/// Row `row` of a tensor that may be missing.
Vector row_or_none(const TensorFile& file, const std::string& name, int64_t row) {
  if (!file.has(name)) return {};
  const Matrix all = file.matrix(name);
  Vector values;
  for (int64_t col = 0; col < all.cols; ++col) values.push_back(all.at(row, col));
  return values;
}

/// One matrix of an expert: a slice of a merged tensor, or a tensor of its own in the first Mixtral files.
Matrix expert_matrix(const TensorFile& file, int64_t layer, const std::string& name, int64_t expert) {
  const std::string merged = in_layer(layer, name + "_exps.weight");
  if (file.has(merged)) return file.matrix(merged, expert);
  return file.matrix(in_layer(layer, name + "." + std::to_string(expert) + ".weight"));
}

/// A SwiGLU feed-forward of the tensors ffn_{gate,up,down}<suffix>.
FfnWork swiglu_ffn(const TensorFile& file, int64_t layer, const std::string& suffix, const Vector& x) {
  const Vector gate = multiply(file.matrix(in_layer(layer, "ffn_gate" + suffix)), x);
  const Vector up = multiply(file.matrix(in_layer(layer, "ffn_up" + suffix)), x);
  FfnWork work;
  work.inner = activate(gate, up, false);
  work.output = multiply(file.matrix(in_layer(layer, "ffn_down" + suffix)), work.inner);
  return work;
}

Gating resolve_gating(const TensorFile& file, Gating gating) {
  if (gating != Gating::kKeyOrSoftmax && gating != Gating::kKeyOrSigmoid) return gating;
  const int64_t key = file.integer_or("expert_gating_func", 0);
  SOLI_CHECK(key >= 0 && key <= 2, "expert_gating_func {}", key);
  if (key == 0) return gating == Gating::kKeyOrSoftmax ? Gating::kSoftmax : Gating::kSigmoid;
  return key == 1 ? Gating::kSoftmax : Gating::kSigmoid;
}

}  // namespace

FfnWork work_of_expert(const TensorFile& file, const RouterSpec& spec, int64_t layer, int64_t expert,
                       const Vector& x) {
  Matrix gate;
  Matrix up;
  if (const std::string fused = in_layer(layer, "ffn_gate_up_exps.weight"); file.has(fused)) {
    const Matrix both = file.matrix(fused, expert);
    gate = both.rows_from(0, both.rows / 2);
    up = both.rows_from(both.rows / 2, both.rows / 2);
  } else {
    gate = expert_matrix(file, layer, "ffn_gate", expert);
    up = expert_matrix(file, layer, "ffn_up", expert);
  }
  Vector g = multiply(gate, x);
  Vector u = multiply(up, x);
  add_to(g, row_or_none(file, in_layer(layer, "ffn_gate_exps.bias"), expert));
  add_to(u, row_or_none(file, in_layer(layer, "ffn_up_exps.bias"), expert));
  FfnWork work;
  work.inner = activate(g, u, spec.clamped_activation);
  work.output = multiply(expert_matrix(file, layer, "ffn_down", expert), work.inner);
  add_to(work.output, row_or_none(file, in_layer(layer, "ffn_down_exps.bias"), expert));
  return work;
}

FfnWork work_of_shared(const TensorFile& file, int64_t layer, const Vector& x) {
  if (!file.has(in_layer(layer, "ffn_gate_shexp.weight"))) return {};
  return swiglu_ffn(file, layer, "_shexp.weight", x);
}

double shared_weight(const TensorFile& file, int64_t layer, const Vector& x) {
  const std::string gate = in_layer(layer, "ffn_gate_inp_shexp.weight");
  return file.has(gate) ? sigmoid(dot(file.vector(gate), x)) : 1;
}

FfnWork work_of_dense(const TensorFile& file, int64_t layer, const Vector& x) {
  return swiglu_ffn(file, layer, ".weight", x);
}

RouterSpec router_spec(const TensorFile& file, const FamilyRules& rules) {
  RouterSpec spec;
  spec.n_experts = file.integer_or("expert_count", 0);
  spec.experts_per_token = file.integer_or("expert_used_count", 0);
  spec.gating = resolve_gating(file, rules.gating);
  spec.renormalise = rules.renormalise == Renormalise::kByKey ? file.flag_or("expert_weights_norm", false)
                                                              : rules.renormalise == Renormalise::kAlways;
  const double scale = rules.scale_by_key ? file.number_or("expert_weights_scale", 0) : 0;
  spec.weight_scale = scale == 0 ? 1 : scale;
  spec.n_groups = file.integer_or("expert_group_count", 1);
  spec.n_groups_used = file.integer_or("expert_group_used_count", 1);
  spec.clamped_activation = rules.clamped_activation;
  return spec;
}

Choice route(const TensorFile& file, const RouterSpec& spec, int64_t layer, const Vector& x,
             const Choice* preferred) {
  Vector logits = multiply(file.matrix(in_layer(layer, "ffn_gate_inp.weight")), x);
  add_to(logits, file.vector_or_none(in_layer(layer, "ffn_gate_inp.bias")));
  const Vector scores = scores_of(spec.gating, logits);
  const Vector bias = file.vector_or_none(in_layer(layer, "exp_probs_b.bias"));  // chooses, never weighs
  const std::vector<int32_t> ids = choose(spec, scores, bias, preferred);

  Vector weights;
  for (const int32_t id : ids) weights.push_back(scores[static_cast<size_t>(id)]);
  if (spec.gating == Gating::kSoftmaxChosen) weights = softmax(weights);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  Choice choice;
  for (size_t i = 0; i < ids.size(); ++i)
    choice[ids[i]] = weights[i] / (spec.renormalise ? sum : 1) * spec.weight_scale;
  return choice;
}

Vector routed_experts(const TensorFile& file, const RouterSpec& spec, int64_t layer, const Choice& choice,
                      const Vector& x) {
  Vector sum(x.size(), 0.0);
  for (const auto& [expert, weight] : choice)
    add_to(sum, work_of_expert(file, spec, layer, expert, x).output, weight);
  return sum;
}

Vector shared_expert(const TensorFile& file, int64_t layer, const Vector& x) {
  Vector y = work_of_shared(file, layer, x).output;
  if (y.empty()) return y;
  const double weight = shared_weight(file, layer, x);
  for (double& value : y) value *= weight;
  return y;
}

Vector dense_ffn(const TensorFile& file, int64_t layer, const Vector& x) {
  return work_of_dense(file, layer, x).output;
}

}  // namespace soli::reference
