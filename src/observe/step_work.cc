#include "observe/step_work.h"

#include "model/kv_layout.h"
#include "model/parameters.h"

namespace soli {
namespace {

Arithmetic arithmetic_of(kernels::ActivationForm form) {
  switch (form) {
    case kernels::ActivationForm::kF32:
      return Arithmetic::kF32;
    case kernels::ActivationForm::kBf16:
      return Arithmetic::kBf16;
    case kernels::ActivationForm::kQ8Of32:
    case kernels::ActivationForm::kQ8Of256:
      return Arithmetic::kInt8;
  }
  return Arithmetic::kF32;
}

/// What one row needs of a matrix.
Work work_of(const TensorRows& rows, const kernels::KernelTable& kernels, ActivationPrecision activations) {
  Work work;
  work.weight_bytes = rows.bytes();
  const kernels::WeightKernels* const type = kernels.find(rows.tensor->type);
  const bool by_partner = activations == ActivationPrecision::kQ8 && type != nullptr;
  const Arithmetic arithmetic = by_partner ? arithmetic_of(type->partner) : Arithmetic::kF32;
  work.weight_operations[static_cast<size_t>(arithmetic)] = 2 * rows.elements();
  return work;
}

Work work_of(const BoundLinear& linear, const kernels::KernelTable& kernels,
             ActivationPrecision activations) {
  if (!linear.transposed) return work_of(linear.weight, kernels, activations);
  Work work;  // in memory it is of floats
  work.weight_bytes = linear.weight.elements() * static_cast<int64_t>(sizeof(float));
  work.weight_operations[static_cast<size_t>(Arithmetic::kF32)] = 2 * linear.weight.elements();
  return work;
}

Phase phase_of(Part part) {
  switch (part) {
    case Part::kAttention:
    case Part::kNorms:
      return Phase::kAttention;
    case Part::kRouter:
      return Phase::kRouter;
    case Part::kDenseFfn:
    case Part::kSharedExperts:
    case Part::kRoutedExperts:
      return Phase::kExperts;
    case Part::kOutputHead:
      return Phase::kHead;
    case Part::kEmbedding:
      return Phase::kOther;
  }
  return Phase::kOther;
}

Phase phase_of(const LinearSlot& slot) {
  // The gate on the shared expert's output routes nothing; the forward computes it with the expert.
  const auto* const of_layer = std::get_if<Linear LayerWeights::*>(&slot.member);
  const bool is_shared_gate = of_layer != nullptr && *of_layer == &LayerWeights::shared_router;
  return is_shared_gate ? Phase::kExperts : phase_of(slot.part);
}

Phase phase_of(const VectorSlot& slot) {
  const auto* const global = std::get_if<std::span<const float> GlobalWeights::*>(&slot.member);
  const bool is_last_norm = global != nullptr && *global == &GlobalWeights::output_norm;
  return is_last_norm ? Phase::kHead : phase_of(slot.part);
}

/// Operations of `row` times n, bytes once.
void add_for_rows(const Work& row, int64_t n, Work& work) {
  if (n == 0) return;
  work.weight_bytes += row.weight_bytes;
  for (size_t a = 0; a < kArithmetics; ++a) work.weight_operations[a] += n * row.weight_operations[a];
}

}  // namespace

int64_t Work::all_operations() const {
  int64_t all = kv_operations;
  for (const int64_t operations : weight_operations) all += operations;
  return all;
}

Work& Work::operator+=(const Work& other) {
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  kv_operations += other.kv_operations;
  for (size_t a = 0; a < kArithmetics; ++a) weight_operations[a] += other.weight_operations[a];
  return *this;
}

Work sum(const WorkByPhase& work) {
  Work all;
  for (const Work& phase : work) all += phase;
  return all;
}

StepRows count_rows(const ModelSpec& spec, const Batch& batch) {
  StepRows counted;
  counted.n_rows = batch.n_rows();
  int64_t n_of_sequence = 0;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    const BatchRow& row = batch.rows[i];
    counted.n_wanted += row.want_logits ? 1 : 0;
    counted.n_attended += spec.keys_seen(row.position);
    ++n_of_sequence;
    // Rows of one sequence stand together and ascend.
    const bool is_last = i + 1 == batch.rows.size() || batch.rows[i + 1].request != row.request;
    if (!is_last) continue;
    counted.n_positions += spec.keys_seen(row.position, n_of_sequence);
    n_of_sequence = 0;
  }
  return counted;
}

StepWork::StepWork(const ModelFile& file, const kernels::KernelTable& kernels,
                   ActivationPrecision activations, KvType kv_type)
    : spec_(file.spec()), position_bytes_(KvLayout(file.spec(), kv_type).position_bytes()) {
  const auto shared = [&](Phase phase) -> Work& { return shared_[static_cast<size_t>(phase)]; };
  attended_operations_ = 2 * spec_.n_heads * (spec_.head_dim + spec_.value_dim);
  for (const BoundLinear& linear : file.linears()) {
    const bool is_embedding = linear.slot->part == Part::kEmbedding;
    if (is_embedding) embedding_row_bytes_ = linear.weight.tensor->row_bytes();
    if (is_embedding && !file.output_is_tied()) continue;
    Work& work = shared(is_embedding ? Phase::kHead : phase_of(*linear.slot));
    work += work_of(linear, kernels, activations);
    if (linear.bias != nullptr) work.weight_bytes += linear.weight.rows * static_cast<int64_t>(sizeof(float));
  }
  for (const BoundVector& vector : file.vectors()) {
    shared(phase_of(*vector.slot)).weight_bytes += vector.values.bytes();
  }
  experts_.resize(static_cast<size_t>(spec_.n_layers));
  for (int64_t layer = 0; layer < spec_.n_layers; ++layer) {
    if (!spec_.is_moe_layer(layer)) continue;
    auto& experts = experts_[static_cast<size_t>(layer)];
    experts.resize(static_cast<size_t>(spec_.router.n_experts));
    for (const std::vector<TensorRows>& matrices : file.experts(layer)) {
      for (size_t e = 0; e < experts.size(); ++e) experts[e] += work_of(matrices[e], kernels, activations);
    }
    for (Work& expert : experts) expert.weight_bytes += expert_bias_size(file, layer).bytes;
  }
}

void StepWork::add_rows(const StepRows& rows, WorkByPhase& work) const {
  for (size_t phase = 0; phase < kPhases; ++phase) {
    const bool is_head = static_cast<Phase>(phase) == Phase::kHead;
    add_for_rows(shared_[phase], is_head ? rows.n_wanted : rows.n_rows, work[phase]);
  }
  work[static_cast<size_t>(Phase::kOther)].weight_bytes += rows.n_rows * embedding_row_bytes_;
  Work& attention = work[static_cast<size_t>(Phase::kAttention)];
  attention.kv_bytes += rows.n_positions * (position_bytes_ / spec_.n_layers);
  attention.kv_operations += rows.n_attended * attended_operations_;
}

void StepWork::add_expert(int64_t layer, int64_t e, int64_t n_calls, WorkByPhase& work) const {
  add_for_rows(expert(layer, e), n_calls, work[static_cast<size_t>(Phase::kExperts)]);
}

int64_t StepWork::expert_bytes(int64_t layer, int64_t e) const { return expert(layer, e).weight_bytes; }

int64_t StepWork::weight_operations(int64_t n_rows, int64_t n_wanted) const {
  WorkByPhase work = {};
  add_rows({.n_rows = n_rows, .n_wanted = n_wanted}, work);
  // The experts of a layer have one shape, so any will do.
  for (int64_t layer = 0; layer < spec_.n_layers; ++layer) {
    if (spec_.is_moe_layer(layer)) add_expert(layer, 0, n_rows * spec_.router.experts_per_token, work);
  }
  return sum(work).all_operations();
}

const Work& StepWork::expert(int64_t layer, int64_t e) const {
  return experts_[static_cast<size_t>(layer)][static_cast<size_t>(e)];
}

}  // namespace soli
