#include "ops/moe_ffn.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <numeric>

#include "base/check.h"
#include "ops/activations.h"

namespace soli {
namespace {

/// Strips of an item at most, so that its outputs stay in the caches of one core.
constexpr int64_t kMaxItemStrips = 8;

/// One piece of work: some strips of one expert's matrix, times some of its rows.
struct WorkItem {
  const ExpertWeights* expert;
  int64_t first_strip;
  int64_t n_strips;
  int64_t first_call;  // index into RowsByExpert::rows and slots
  int64_t n_calls;
};

/// The items of one phase over all leased experts: expert after expert, within one its tiles of rows, within
/// a tile its strips.
class WorkList {
 public:
  WorkList(OpContext& context, const RowsByExpert& grouped, std::span<const ExpertLease> leases,
           PackedMatrix ExpertWeights::*matrix)
      : grouped_(grouped), leases_(leases), matrix_(matrix) {
    first_item_ = context.work_list.take<int64_t>(static_cast<int64_t>(leases.size()) + 1);
    int64_t n_strips = 0;
    for (const ExpertLease& lease : leases) n_strips += strips_of(lease) * tiles_of(lease).size();
    strips_per_item_ = std::min(strips_per_piece(context, n_strips), kMaxItemStrips);
    first_item_[0] = 0;
    for (size_t i = 0; i < leases.size(); ++i) {
      first_item_[i + 1] = first_item_[i] + items_per_tile(leases[i]) * tiles_of(leases[i]).size();
    }
  }

  int64_t size() const { return first_item_[leases_.size()]; }

  WorkItem operator[](int64_t item) const {
    const int64_t* next = std::upper_bound(first_item_, first_item_ + leases_.size(), item);
    const auto i = static_cast<size_t>(next - first_item_) - 1;
    const ExpertLease& lease = leases_[i];
    const int64_t within = item - first_item_[i];
    const RowTiles tiles = tiles_of(lease);
    const int64_t tile = within / items_per_tile(lease);
    const int64_t strip = within % items_per_tile(lease) * strips_per_item_;
    return {.expert = &lease.weights,
            .first_strip = strip,
            .n_strips = std::min(strips_per_item_, strips_of(lease) - strip),
            .first_call = grouped_.begin[static_cast<size_t>(lease.group)] + tiles.begin(tile),
            .n_calls = tiles.end(tile) - tiles.begin(tile)};
  }

 private:
  int64_t strips_of(const ExpertLease& lease) const { return (lease.weights.*matrix_).n_strips(); }
  RowTiles tiles_of(const ExpertLease& lease) const {
    const auto group = static_cast<size_t>(lease.group);
    return RowTiles(grouped_.begin[group + 1] - grouped_.begin[group]);
  }
  int64_t items_per_tile(const ExpertLease& lease) const {
    return (strips_of(lease) + strips_per_item_ - 1) / strips_per_item_;
  }

  const RowsByExpert& grouped_;
  std::span<const ExpertLease> leases_;
  PackedMatrix ExpertWeights::*matrix_;
  int64_t* first_item_ = nullptr;  // [leases + 1]
  int64_t strips_per_item_ = 0;
};

/// h[slot] = activation(gate x, up x) for the item's part of the expert's width, while it is in the caches.
void gate_and_up(const OpContext& context, const WorkItem& item, const RowsByExpert& grouped,
                 const Activations& x, MatrixView<float> h) {
  constexpr int64_t kItemCols = kMaxItemStrips * kernels::kStripRows;
  alignas(64) std::array<float, kTileRows * kItemCols> up;
  std::array<float*, kTileRows> gate_rows;
  std::array<float*, kTileRows> up_rows;
  for (int64_t i = 0; i < item.n_calls; ++i) {
    const int32_t slot = grouped.slots[static_cast<size_t>(item.first_call + i)];
    gate_rows[static_cast<size_t>(i)] = h.row(slot) + item.first_strip * kernels::kStripRows;
    up_rows[static_cast<size_t>(i)] = up.data() + i * kItemCols;
  }
  const RowList rows = {.ids = grouped.rows.data() + item.first_call, .n = item.n_calls};
  multiply_strips(context, item.expert->gate, item.first_strip, item.n_strips, x, rows, gate_rows.data());
  multiply_strips(context, item.expert->up, item.first_strip, item.n_strips, x, rows, up_rows.data());
  const int64_t n = rows_of_strips(item.expert->gate, item.first_strip, item.n_strips);
  for (size_t i = 0; i < static_cast<size_t>(item.n_calls); ++i)
    activate(context, item.expert->activation, gate_rows[i], up_rows[i], n, gate_rows[i]);
}

/// y[slot] = down h[slot] for the item's part of the hidden size.
void down(const OpContext& context, const WorkItem& item, const RowsByExpert& grouped, const Activations& h,
          MatrixView<float> y) {
  const RowList slots = {.ids = grouped.slots.data() + item.first_call, .n = item.n_calls};
  std::array<float*, kTileRows> outputs;
  for (int64_t i = 0; i < item.n_calls; ++i) {
    outputs[static_cast<size_t>(i)] = y.row(slots[i]) + item.first_strip * kernels::kStripRows;
  }
  multiply_strips(context, item.expert->down, item.first_strip, item.n_strips, h, slots, outputs.data());
}

void check_shapes(std::span<const ExpertLease> leases, MatrixView<const float> x, MatrixView<float> h,
                  MatrixView<float> y) {
  for (const auto& [group, expert] : leases) {
    SOLI_CHECK(expert.gate.cols == x.cols && expert.up.cols == x.cols && expert.down.rows == y.cols);
    SOLI_CHECK(expert.gate.rows == h.cols && expert.up.rows == h.cols && expert.down.cols == h.cols);
  }
  SOLI_CHECK(h.rows == y.rows);
}

template <typename F>
void for_each_item(OpContext& context, const WorkList& items, const F& compute) {
  context.team.parallel_for(items.size(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) compute(items[i]);
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

void moe_ffn(OpContext& context, const RowsByExpert& grouped, std::span<const ExpertLease> leases,
             MatrixView<const float> x, MatrixView<float> h, MatrixView<float> y) {
  check_shapes(leases, x, h, y);
  {
    const Activations inputs(context, x,
                             forms_of(context, leases, {&ExpertWeights::gate, &ExpertWeights::up}));
    for_each_item(context, WorkList(context, grouped, leases, &ExpertWeights::gate),
                  [&](const WorkItem& item) { gate_and_up(context, item, grouped, inputs, h); });
  }
  const Activations inner(context, h, forms_of(context, leases, {&ExpertWeights::down}));
  for_each_item(context, WorkList(context, grouped, leases, &ExpertWeights::down),
                [&](const WorkItem& item) { down(context, item, grouped, inner, y); });
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
