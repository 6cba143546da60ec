#include "experts/local_executor.h"

namespace soli {

int64_t LocalExecutor::bytes_needed(const ModelSpec& spec, const Workspace::Limits& limits) {
  return limits.max_slots(spec) * spec.expert_width * static_cast<int64_t>(sizeof(float));
}

Result<LocalExecutor> LocalExecutor::create(const ModelSpec& spec, ExpertStore& store, Budget& budget,
                                            const Workspace::Limits& limits) {
  Slab inner;
  if (spec.is_moe()) {
    SOLI_ASSIGN_OR_RETURN(inner, Slab::allocate(budget, "activations", bytes_needed(spec, limits)));
  }
  return LocalExecutor(store, spec.expert_width, std::move(inner));
}

Status LocalExecutor::run(OpContext& context, int64_t layer, const RowsByExpert& grouped,
                          MatrixView<const float> x, MatrixView<float> y) {
  n_slots_ = y.rows;
  const MatrixView<float> inner(reinterpret_cast<float*>(inner_.data()), y.rows, expert_width_);
  MoeFfn ffn(context, grouped, x, inner, y, meter_ == nullptr ? ExpertMeter::Layer() : meter_->layer(layer));
  return store_.stream({.layer = layer, .n_tokens = x.rows, .grouped = grouped},
                       [&](std::span<const ExpertLease> wave) { ffn.run(wave); });
}

}  // namespace soli
