#include "ops/moe_ffn.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>

#include "base/check.h"
#include "ops/activations.h"

namespace soli {
namespace {

/// Floats that an item writes per matrix at most, so that they stay in the caches of one core.
constexpr int64_t kMaxItemFloats = 12 * 1024;

/// One piece of work: some strips of one expert's matrix, times some of its rows.
struct WorkItem {
  const ExpertWeights* expert = nullptr;
  int32_t expert_id = 0;
  int64_t first_strip = 0;
  int64_t n_strips = 0;
  int64_t first_call = 0;  // index into RowsByExpert::rows and slots
  int64_t n_calls = 0;
};

/// The strips of one phase over all leased experts, numbered: expert after expert, within one its tiles of
/// rows, within a tile its strips.
class WorkList {
 public:
  WorkList(OpContext& context, const RowsByExpert& grouped, std::span<const ExpertLease> leases,
           PackedMatrix ExpertWeights::*matrix)
      : grouped_(grouped), leases_(leases), matrix_(matrix) {
    first_ = context.work_list.take<int64_t>(static_cast<int64_t>(leases.size()) + 1);
    first_[0] = 0;
    for (size_t i = 0; i < leases.size(); ++i)
      first_[i + 1] = first_[i] + strips_of(leases[i]) * tiles_of(leases[i]).size();
  }

  int64_t size() const { return first_[leases_.size()]; }

  /// The longest item that begins with strip `begin`, up to `end`. Advances `begin`.
  WorkItem take(int64_t& begin, int64_t end) const {
    const int64_t* next = std::upper_bound(first_, first_ + leases_.size(), begin);
    const auto i = static_cast<size_t>(next - first_) - 1;
    const ExpertLease& lease = leases_[i];
    const RowTiles tiles = tiles_of(lease);
    const int64_t tile = (begin - first_[i]) / strips_of(lease);
    WorkItem item;
    const auto group = static_cast<size_t>(lease.group);
    item.expert = &lease.weights;
    item.expert_id = grouped_.experts[group];
    item.first_call = grouped_.begin[group] + tiles.begin(tile);
    item.n_calls = tiles.end(tile) - tiles.begin(tile);
    item.first_strip = (begin - first_[i]) % strips_of(lease);
    const int64_t most =
        std::max<int64_t>(kStripsPerRange, kMaxItemFloats / (item.n_calls * kernels::kStripRows) /
                                               kStripsPerRange * kStripsPerRange);
    item.n_strips = std::min({strips_of(lease) - item.first_strip, end - begin, most});
    begin += item.n_strips;
    return item;
  }

 private:
  int64_t strips_of(const ExpertLease& lease) const { return (lease.weights.*matrix_).n_strips(); }
  RowTiles tiles_of(const ExpertLease& lease) const {
    const auto group = static_cast<size_t>(lease.group);
    return RowTiles(grouped_.begin[group + 1] - grouped_.begin[group]);
  }

  const RowsByExpert& grouped_;
  std::span<const ExpertLease> leases_;
  PackedMatrix ExpertWeights::*matrix_;
  int64_t* first_ = nullptr;  // [leases + 1]
};

/// Adds the part of a bias, if there is one, that belongs to an item's strips to each of its outputs.
void add_bias(const OpContext& context, const WorkItem& item, std::span<const float> bias, int64_t n,
              float* const* outputs) {
  if (bias.empty()) return;
  const float* part = bias.data() + item.first_strip * kernels::kStripRows;
  for (int64_t i = 0; i < item.n_calls; ++i) context.kernels.add(outputs[i], part, n, outputs[i]);
}

/// h[slot] = activation(gate x, up x) for the item's part of the expert's width, while it is in the caches.
/// `next` is the item after this one, or null.
void gate_and_up(const OpContext& context, const WorkItem& item, const WorkItem* next,
                 const RowsByExpert& grouped, const Activations& x, MatrixView<float> h) {
  alignas(64) std::array<float, kMaxItemFloats> up;
  const int64_t up_stride = item.n_strips * kernels::kStripRows;
  SOLI_CHECK(item.n_calls * up_stride <= kMaxItemFloats);
  std::array<float*, kTileRows> gate_rows;
  std::array<float*, kTileRows> up_rows;
  for (int64_t i = 0; i < item.n_calls; ++i) {
    const int32_t slot = grouped.slots[static_cast<size_t>(item.first_call + i)];
    gate_rows[static_cast<size_t>(i)] = h.row(slot) + item.first_strip * kernels::kStripRows;
    up_rows[static_cast<size_t>(i)] = up.data() + i * up_stride;
  }
  const RowList rows = {.ids = grouped.rows.data() + item.first_call, .n = item.n_calls};
  multiply_strips(context, item.expert->gate, item.first_strip, item.n_strips, x, rows, gate_rows.data(),
                  item.expert->up.strip(item.first_strip));
  multiply_strips(context, item.expert->up, item.first_strip, item.n_strips, x, rows, up_rows.data(),
                  next == nullptr ? nullptr : next->expert->gate.strip(next->first_strip));
  const int64_t n = rows_of_strips(item.expert->gate, item.first_strip, item.n_strips);
  add_bias(context, item, item.expert->gate_bias, n, gate_rows.data());
  add_bias(context, item, item.expert->up_bias, n, up_rows.data());
  for (size_t i = 0; i < static_cast<size_t>(item.n_calls); ++i)
    activate(context, item.expert->activation, gate_rows[i], up_rows[i], n, gate_rows[i]);
}

/// y[slot] = down h[slot] for the item's part of the hidden size.
void down(const OpContext& context, const WorkItem& item, const WorkItem* next, const RowsByExpert& grouped,
          const Activations& h, MatrixView<float> y) {
  const RowList slots = {.ids = grouped.slots.data() + item.first_call, .n = item.n_calls};
  std::array<float*, kTileRows> outputs;
  for (int64_t i = 0; i < item.n_calls; ++i) {
    outputs[static_cast<size_t>(i)] = y.row(slots[i]) + item.first_strip * kernels::kStripRows;
  }
  multiply_strips(context, item.expert->down, item.first_strip, item.n_strips, h, slots, outputs.data(),
                  next == nullptr ? nullptr : next->expert->down.strip(next->first_strip));
  add_bias(context, item, item.expert->down_bias,
           rows_of_strips(item.expert->down, item.first_strip, item.n_strips), outputs.data());
}

void check_shapes(std::span<const ExpertLease> leases, MatrixView<const float> x, MatrixView<float> h,
                  MatrixView<float> y) {
  for (const auto& [group, expert] : leases) {
    SOLI_CHECK(expert.gate.cols == x.cols && expert.up.cols == x.cols && expert.down.rows == y.cols);
    SOLI_CHECK(expert.gate.rows == h.cols && expert.up.rows == h.cols && expert.down.cols == h.cols);
  }
  SOLI_CHECK(h.rows == y.rows);
}

/// A thread's range of items may span experts; the clock is read once where it begins and once where an
/// expert's part of it ends.
template <typename F>
void for_each_item(OpContext& context, const WorkList& items, ExpertMeter::Layer meter, const F& compute) {
  context.team.parallel_for_shrinking(items.size(), kStripsPerRange, [&](int64_t begin, int64_t end, int) {
    ExpertLaps laps(meter);
    WorkItem item = items.take(begin, end);
    while (begin < end) {
      const WorkItem next = items.take(begin, end);
      compute(item, &next);
      if (next.expert_id != item.expert_id) laps.lap(item.expert_id);
      item = next;
    }
    compute(item, nullptr);
    laps.lap(item.expert_id);
  });
}

FormSet forms_of(const OpContext& context, std::span<const ExpertLease> leases,
                 std::initializer_list<PackedMatrix ExpertWeights::*> matrices) {
  FormSet forms;
  for (const ExpertLease& lease : leases) {
    for (PackedMatrix ExpertWeights::*matrix : matrices)
      forms.insert(form_of(context, lease.weights.*matrix));
  }
  return forms;
}

/// Sorts a row's slots by expert id; there are few.
void sort_by_expert(std::span<int32_t> slots, std::span<const int32_t> ids) {
  std::sort(slots.begin(), slots.end(),
            [&](int32_t a, int32_t b) { return ids[static_cast<size_t>(a)] < ids[static_cast<size_t>(b)]; });
}

}  // namespace

void group_by_expert(std::span<const int32_t> row_begin, std::span<const int32_t> ids, int64_t n_experts,
                     RowsByExpert& grouped) {
  std::vector<int32_t>& next = grouped.next_place;
  next.assign(static_cast<size_t>(n_experts) + 1, 0);
  for (const int32_t id : ids) {
    SOLI_CHECK(id >= 0 && id < n_experts, "expert {} of {}", id, n_experts);
    ++next[static_cast<size_t>(id) + 1];
  }
  grouped.experts.clear();
  grouped.begin.assign(1, 0);
  for (size_t e = 0; e < static_cast<size_t>(n_experts); ++e) {
    const int32_t n_calls = next[e + 1];
    next[e + 1] += next[e];
    if (n_calls == 0) continue;
    grouped.experts.push_back(static_cast<int32_t>(e));
    grouped.begin.push_back(next[e + 1]);
  }
  grouped.slots.resize(ids.size());
  grouped.rows.resize(ids.size());
  for (size_t row = 0; row + 1 < row_begin.size(); ++row) {
    for (int32_t slot = row_begin[row]; slot < row_begin[row + 1]; ++slot) {
      const auto place = static_cast<size_t>(next[static_cast<size_t>(ids[static_cast<size_t>(slot)])]++);
      grouped.slots[place] = slot;
      grouped.rows[place] = static_cast<int32_t>(row);
    }
  }
}

/// The rows of x in the forms that these experts take; converted when a wave brings the first of its form.
const Activations& MoeFfn::inputs(std::span<const ExpertLease> leases) {
  FormSet needed = forms_of(context_, leases, {&ExpertWeights::gate, &ExpertWeights::up});
  needed.insert(input_forms_);
  if (!inputs_ || !(needed == input_forms_)) {
    inputs_.emplace(context_, context_.shared, x_, needed, RowList{.n = x_.rows});
    input_forms_ = needed;
  }
  return *inputs_;
}

RowList MoeFfn::slots_of(std::span<const ExpertLease> leases) {
  auto* const slots = context_.rows.take<int32_t>(h_.rows);
  int64_t n = 0;
  for (const ExpertLease& lease : leases) {
    const auto group = static_cast<size_t>(lease.group);
    for (int32_t call = grouped_.begin[group]; call < grouped_.begin[group + 1]; ++call)
      slots[n++] = grouped_.slots[static_cast<size_t>(call)];
  }
  return {.ids = slots, .n = n};
}

void MoeFfn::count_calls(std::span<const ExpertLease> leases) const {
  if (!meter_) return;
  for (const ExpertLease& lease : leases) {
    const auto group = static_cast<size_t>(lease.group);
    meter_.add_calls(grouped_.experts[group], grouped_.begin[group + 1] - grouped_.begin[group]);
  }
}

void MoeFfn::run(std::span<const ExpertLease> leases) {
  check_shapes(leases, x_, h_, y_);
  const Activations& outer = inputs(leases);
  for_each_item(context_, WorkList(context_, grouped_, leases, &ExpertWeights::gate), meter_,
                [&](const WorkItem& item, const WorkItem* next) {
                  gate_and_up(context_, item, next, grouped_, outer, h_);
                });
  const Activations inner(context_, context_.scratch, h_, forms_of(context_, leases, {&ExpertWeights::down}),
                          slots_of(leases));
  for_each_item(
      context_, WorkList(context_, grouped_, leases, &ExpertWeights::down), meter_,
      [&](const WorkItem& item, const WorkItem* next) { down(context_, item, next, grouped_, inner, y_); });
  count_calls(leases);
}

void combine_experts(OpContext& context, std::span<const int32_t> row_begin, std::span<const int32_t> ids,
                     std::span<const float> weights, MatrixView<const float> y, MatrixView<float> out) {
  SOLI_CHECK(y.cols == out.cols && static_cast<int64_t>(row_begin.size()) == out.rows + 1);
  auto* order = context.work_list.take<int32_t>(y.rows);
  const int64_t grain =
      rows_per_range(out.cols * std::max<int64_t>(1, y.rows / std::max<int64_t>(1, out.rows)));
  context.team.parallel_for(out.rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int32_t first = row_begin[static_cast<size_t>(row)];
      const std::span<int32_t> slots(order + first,
                                     static_cast<size_t>(row_begin[static_cast<size_t>(row) + 1] - first));
      std::iota(slots.begin(), slots.end(), first);
      sort_by_expert(slots, ids);
      std::fill_n(out.row(row), out.cols, 0.0F);
      for (const int32_t slot : slots) {
        context.kernels.add_scaled(y.row(slot), weights[static_cast<size_t>(slot)], y.cols, out.row(row));
      }
    }
  });
}

}  // namespace soli
