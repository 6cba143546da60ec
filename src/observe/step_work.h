#pragma once

// What a step has to read and to compute, by phase: counted from the shapes of the weights and from what the
// rows chose, whatever the kernels do.

#include <array>
#include <cstdint>
#include <vector>

#include "model/batch.h"
#include "model/model_file.h"
#include "model/step_probe.h"

namespace soli {

/// How products are computed, which decides the peak that they are held against.
enum class Arithmetic { kF32, kBf16, kInt8 };
inline constexpr int kArithmetics = 3;

struct Work {
  int64_t weight_bytes = 0;  // as the file stores them; a weight that several rows meet counts once per step
  int64_t kv_bytes = 0;      // keys and values of every position in use, once per step
  std::array<int64_t, kArithmetics> weight_operations = {};  // by Arithmetic: 2 per weight and row
  int64_t kv_operations = 0;                                 // in f32: 2 per element of q.k and of p.v

  int64_t bytes() const { return weight_bytes + kv_bytes; }
  /// All operations of one kind.
  int64_t operations(Arithmetic arithmetic) const {
    return weight_operations[static_cast<size_t>(arithmetic)] +
           (arithmetic == Arithmetic::kF32 ? kv_operations : 0);
  }
  int64_t all_operations() const;
  Work& operator+=(const Work& other);
  bool operator==(const Work&) const = default;
};

/// By Phase.
using WorkByPhase = std::array<Work, kPhases>;
Work sum(const WorkByPhase& work);

/// As much of a step's rows as its work depends on.
struct StepRows {
  int64_t n_rows = 0;
  int64_t n_wanted = 0;     // rows that want logits
  int64_t n_positions = 0;  // that are seen, over all sequences and layers
  int64_t n_attended = 0;   // pairs of a row and a position that it sees, over all layers
};
StepRows count_rows(const ModelSpec& spec, const Batch& batch);

/// The work of any step of one model. Norms, biases and the rows of the embedding are read and not counted as
/// operations.
class StepWork {
 public:
  StepWork(const ModelFile& file, const kernels::KernelTable& kernels, ActivationPrecision activations,
           KvType kv_type);

  /// Adds what the rows need, but for the routed experts.
  void add_rows(const StepRows& rows, WorkByPhase& work) const;
  /// Adds a routed expert, read once for `n_calls` rows.
  void add_expert(int64_t layer, int64_t expert, int64_t n_calls, WorkByPhase& work) const;

  const ModelSpec& spec() const { return spec_; }
  /// Bytes of one routed expert.
  int64_t expert_bytes(int64_t layer, int64_t expert) const;
  /// Bytes of keys and values per position of a sequence.
  int64_t position_bytes() const { return position_bytes_; }
  /// 2 per weight that takes part, where every row calls the model's own number of experts per layer.
  int64_t weight_operations(int64_t n_rows, int64_t n_wanted) const;

 private:
  const Work& expert(int64_t layer, int64_t expert) const;

  const ModelSpec spec_;
  WorkByPhase shared_;               // of one row, kHead for one that wants logits; without keys and values
  int64_t embedding_row_bytes_ = 0;  // that every row reads
  int64_t position_bytes_ = 0;       // of keys and values, all layers
  int64_t attended_operations_ = 0;  // per pair of a row and a position that it sees in one layer
  std::vector<std::vector<Work>> experts_;  // [layer][expert], of one row; empty for dense layers
};

}  // namespace soli
