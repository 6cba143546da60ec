#include "model/parameters.h"

#include <cmath>

namespace soli {
namespace {

PartSize size_of_rows(const TensorRows& rows) { return {rows.elements(), rows.bytes()}; }

PartSize size_of_linear(const BoundLinear& linear) {
  PartSize size = size_of_rows(linear.weight);
  if (linear.bias != nullptr)
    size += {linear.weight.rows, linear.weight.rows * static_cast<int64_t>(sizeof(float))};
  return size;
}

/// Every token multiplies with all of a matrix, but reads one row of the embedding, unless it is the output
/// head too.
PartSize active_size(const ModelFile& file, const BoundLinear& linear) {
  const PartSize whole = size_of_linear(linear);
  if (linear.slot->part != Part::kEmbedding) return whole;
  PartSize active = {linear.weight.cols, linear.weight.tensor->row_bytes()};
  if (file.output_is_tied()) active += whole;
  return active;
}

}  // namespace

PartSize expert_bias_size(const ModelFile& file, int64_t layer) {
  PartSize size;
  for (const GgufTensor* bias : file.expert_biases(layer)) {
    if (bias != nullptr) size += {bias->dims[0], bias->dims[0] * int64_t{sizeof(float)}};
  }
  return size;
}

ParameterCounts count_parameters(const ModelFile& file) {
  ParameterCounts counts;
  const auto part = [&](Part p) -> PartSize& { return counts.nominal[static_cast<size_t>(p)]; };
  for (const BoundLinear& linear : file.linears()) {
    part(linear.slot->part) += size_of_linear(linear);
    counts.always_active += active_size(file, linear);
  }
  for (const BoundVector& vector : file.vectors()) {
    part(vector.slot->part) += size_of_rows(vector.values);
    counts.always_active += size_of_rows(vector.values);
  }
  const ModelSpec& spec = file.spec();
  counts.expert.resize(static_cast<size_t>(spec.n_layers));
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (!spec.is_moe_layer(layer)) continue;
    auto& experts = counts.expert[static_cast<size_t>(layer)];
    experts.resize(static_cast<size_t>(spec.router.n_experts));
    for (const std::vector<TensorRows>& matrices : file.experts(layer)) {
      for (size_t e = 0; e < experts.size(); ++e) experts[e] += size_of_rows(matrices[e]);
    }
    for (PartSize& expert : experts) expert += expert_bias_size(file, layer);
    for (const PartSize& expert : experts) part(Part::kRoutedExperts) += expert;
  }
  for (const PartSize& size : counts.nominal) counts.nominal_total += size;
  return counts;
}

ParameterCounts count_parameters(const Family& family, const ModelSpec& spec, bool tied_output) {
  ParameterCounts counts;
  const auto add = [&](Part part, int64_t n, int64_t n_active) {
    counts.nominal[static_cast<size_t>(part)].parameters += n;
    counts.always_active.parameters += n_active;
  };
  const auto for_each_layer = [&](const auto& slot, const auto& visit) {
    const int64_t n_layers = slot.is_global() ? 1 : spec.n_layers;
    for (int64_t layer = 0; layer < n_layers; ++layer) {
      if (slot.is_global() || has_layer(spec, slot.layers, layer)) visit();
    }
  };
  for (const LinearSlot& slot : family.linears) {
    if (slot.part == Part::kOutputHead ? tied_output : !slot.required) continue;
    const int64_t rows = size_of(spec, slot.rows) * (slot.is_per_head() ? spec.n_heads : 1);
    const int64_t cols = size_of(spec, slot.cols);
    const int64_t n = rows * cols + (slot.bias_required ? rows : 0);
    const bool is_embedding = slot.part == Part::kEmbedding;
    for_each_layer(slot, [&] { add(slot.part, n, is_embedding ? cols + (tied_output ? n : 0) : n); });
  }
  for (const VectorSlot& slot : family.vectors) {
    if (!slot.required) continue;
    for_each_layer(slot, [&] { add(slot.part, size_of(spec, slot.size), size_of(spec, slot.size)); });
  }
  PartSize expert;
  for (const ExpertSlot& slot : family.experts) {
    const int64_t rows = size_of(spec, slot.rows);
    expert.parameters += rows * size_of(spec, slot.cols) + (slot.bias_pattern.empty() ? 0 : rows);
  }
  counts.expert.resize(static_cast<size_t>(spec.n_layers));
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (!spec.is_moe_layer(layer)) continue;
    counts.expert[static_cast<size_t>(layer)].assign(static_cast<size_t>(spec.router.n_experts), expert);
    add(Part::kRoutedExperts, spec.router.n_experts * expert.parameters, 0);
  }
  for (const PartSize& size : counts.nominal) counts.nominal_total += size;
  return counts;
}

PartSize ParameterCounts::active_with_k(const ModelSpec& spec) const {
  PartSize active = always_active;
  if (!spec.is_moe()) return active;
  const double share =
      static_cast<double>(spec.router.experts_per_token) / static_cast<double>(spec.router.n_experts);
  const PartSize& routed = nominal[static_cast<size_t>(Part::kRoutedExperts)];
  active.parameters += std::llround(static_cast<double>(routed.parameters) * share);
  active.bytes += std::llround(static_cast<double>(routed.bytes) * share);
  return active;
}

}  // namespace soli
