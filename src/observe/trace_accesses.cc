#include "observe/trace_accesses.h"

#include <algorithm>
#include <map>

namespace soli {
namespace {

/// One step: the calls of each layer's experts.
class StepGatherer {
 public:
  StepGatherer(const TraceShape& shape, AccessTrace& accesses)
      : shape_(shape),
        accesses_(accesses),
        n_calls_(static_cast<size_t>(shape.n_layers() * shape.n_experts)),
        called_(static_cast<size_t>(shape.n_layers())) {}

  int64_t n_rows() const { return n_rows_; }

  void add(const TraceRow& row) {
    ++n_rows_;
    for (int64_t l = 0; l < shape_.n_layers(); ++l) {
      for (const int16_t id : ids_of_layer(row, shape_, l)) {
        if (calls_of(l, id)++ == 0) called_[static_cast<size_t>(l)].push_back(id);
      }
    }
  }

  void end() {
    if (n_rows_ == 0) return;
    for (int64_t l = 0; l < shape_.n_layers(); ++l) {
      std::vector<int32_t>& experts = called_[static_cast<size_t>(l)];
      std::sort(experts.begin(), experts.end());
      calls_.clear();
      for (const int32_t expert : experts) {
        calls_.push_back(calls_of(l, expert));
        calls_of(l, expert) = 0;
      }
      accesses_.record({.layer = l, .n_tokens = n_rows_, .experts = experts, .calls = calls_});
      experts.clear();
    }
    n_rows_ = 0;
  }

 private:
  int32_t& calls_of(int64_t layer, int32_t expert) {
    return n_calls_[static_cast<size_t>(layer * shape_.n_experts + expert)];
  }

  const TraceShape& shape_;
  AccessTrace& accesses_;
  int64_t n_rows_ = 0;
  std::vector<int32_t> n_calls_;              // [layers][experts]
  std::vector<std::vector<int32_t>> called_;  // [layers] those with calls
  std::vector<int32_t> calls_;                // of one layer's experts
};

}  // namespace

Result<AccessTrace> accesses_of(TraceReader& reader, int64_t request, int64_t prompt_rows,
                                int64_t max_bytes) {
  std::map<uint64_t, int64_t> n_prompt;
  SOLI_ASSIGN_OR_RETURN(const std::vector<TraceRequest> requests, reader.requests());
  for (const TraceRequest& known : requests) n_prompt.emplace(known.id, known.n_prompt);
  const TraceShape& shape = reader.shape();
  AccessTrace accesses(shape.n_layers(), shape.n_experts, max_bytes);
  StepGatherer step(shape, accesses);
  uint64_t before = 0;
  int64_t before_position = -1;
  bool is_in_prompt = false;  // of the row before
  SOLI_RETURN_IF_ERROR(reader.for_each_row({.request = request}, false, [&](const TraceRow& row) -> Status {
    if (row.is_cached) return {};
    const auto known = n_prompt.find(row.request);
    const bool is_prompt = known != n_prompt.end() && row.position < known->second;
    const bool goes_on = is_prompt && is_in_prompt && row.request == before &&
                         row.position == before_position + 1 && step.n_rows() < prompt_rows;
    if (!goes_on) step.end();
    step.add(row);
    before = row.request;
    before_position = row.position;
    is_in_prompt = is_prompt;
    return {};
  }));
  step.end();
  return accesses;
}

}  // namespace soli
