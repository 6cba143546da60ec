#include "cli/memory_need.h"

#include <algorithm>

#include "base/slab.h"
#include "base/units.h"
#include "experts/expert_biases.h"
#include "experts/local_executor.h"
#include "model/packed_loader.h"
#include "model/weight_loader.h"
#include "model/workspace.h"

namespace soli::cli {
namespace {

Result<int64_t> expert_bytes(const ModelFile& file, Runtime& runtime) {
  if (file.packed() != nullptr) return count_extent_bytes(file, runtime.kernels());
  WeightLoader loader(file.gguf(), runtime, "experts");
  for (int64_t layer = 0; layer < file.spec().n_layers; ++layer) {
    for (const std::vector<TensorRows>& matrices : file.experts(layer)) {
      for (const TensorRows& rows : matrices) SOLI_RETURN_IF_ERROR(loader.add(rows));
    }
  }
  return loader.packed_bytes();
}

/// Of OpContext: the rows that enter the experts' matrices and that leave the first two, converted, at two
/// bytes each at most.
int64_t scratch_bytes(const ModelSpec& spec, const Workspace::Limits& limits) {
  const int64_t width = std::max({spec.hidden_size, spec.n_heads * spec.head_dim, spec.ffn_width});
  const int64_t inner = spec.is_moe() ? limits.max_slots(spec) * spec.expert_width : 0;
  return 2 * (limits.max_rows * width + inner);
}

}  // namespace

Result<WeightBytes> count_weight_bytes(const ModelFile& file, Runtime& runtime) {
  WeightLoader loader(file.gguf(), runtime, "weights");
  const kernels::WeightKernels& floats = *runtime.kernels().find(kGgmlF32);
  int64_t transposed_bytes = 0;
  for (const BoundLinear& bound : file.linears()) {
    if (bound.transposed) {
      transposed_bytes += transposed_matrix(floats, bound).packed_bytes();
    } else {
      SOLI_RETURN_IF_ERROR(loader.add(bound.weight));
    }
  }
  SOLI_ASSIGN_OR_RETURN(const int64_t experts, expert_bytes(file, runtime));
  return WeightBytes{Slab::charged_bytes(loader.packed_bytes()) + Slab::charged_bytes(transposed_bytes),
                     Slab::charged_bytes(experts) + Slab::charged_bytes(ExpertBiases::bytes_needed(file))};
}

Result<MemoryNeed> count_memory_need(const ModelFile& file, Runtime& runtime, const EngineOptions& options,
                                     int64_t n_positions) {
  const ModelSpec& spec = file.spec();
  const Workspace::Limits limits = options.workspace_limits();
  SOLI_ASSIGN_OR_RETURN(const WeightBytes weights, count_weight_bytes(file, runtime));
  const int64_t page_bytes = KvPagePool::charged_bytes(options.page_shape(spec));
  const int64_t n_pages = KvPageTable::pages_for(n_positions);
  const bool groups = options.group_requests && spec.is_moe();
  return MemoryNeed{.shared_weights = weights.shared,
                    .experts = weights.experts,
                    .activations = Slab::charged_bytes(Workspace::bytes_needed(spec, limits)) +
                                   Slab::charged_bytes(LocalExecutor::bytes_needed(spec, limits)) +
                                   (groups ? Slab::charged_bytes(TokenExperts::bytes_needed(spec)) : 0),
                    .kv = n_pages * page_bytes,
                    .process = kProcessBytes + scratch_bytes(spec, limits)};
}

std::string MemoryNeed::description() const {
  return fmt::format("weights {}, routed experts {}, activations {}, keys and values {}, program {}",
                     format_bytes(shared_weights), format_bytes(experts), format_bytes(activations),
                     format_bytes(kv), format_bytes(process));
}

}  // namespace soli::cli
