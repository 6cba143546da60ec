#include "ops/moe_ffn.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "ops/activations.h"

namespace soli {
namespace {

/// Strips of one work item: few enough to balance experts with uneven rows, enough that claiming an item
/// costs nothing.
constexpr int64_t kTileStrips = 4;
constexpr int64_t kTileCols = kTileStrips * kernels::kStripRows;

/// One piece of work: some strips of one expert's matrix, times some of its rows.
struct WorkItem {
  const ExpertWeights* expert;
  int64_t first_strip;
  int64_t n_strips;
  int64_t first_call;  // index into RowsByExpert::rows and slots
  int64_t n_calls;
};

std::vector<WorkItem> cut_into_items(const RowsByExpert& grouped, std::span<const ExpertLease> leases,
                                     PackedMatrix ExpertWeights::*matrix) {
  std::vector<WorkItem> items;
  for (const ExpertLease& lease : leases) {
    const auto group = static_cast<size_t>(lease.group);
    const int64_t n_strips = (lease.weights.*matrix).n_strips();
    for (int64_t call = grouped.begin[group]; call < grouped.begin[group + 1]; call += kTileRows) {
      const int64_t n_calls = std::min<int64_t>(kTileRows, grouped.begin[group + 1] - call);
      for (int64_t strip = 0; strip < n_strips; strip += kTileStrips) {
        items.push_back({&lease.weights, strip, std::min(kTileStrips, n_strips - strip), call, n_calls});
      }
    }
  }
  return items;
}

/// h[slot] = activation(gate x, up x) for the item's part of the expert's width.
void gate_and_up(const OpContext& context, const WorkItem& item, const RowsByExpert& grouped,
                 const Activations& x, MatrixView<float> h) {
  alignas(64) std::array<float, kTileRows * kTileCols> gate;
  alignas(64) std::array<float, kTileRows * kTileCols> up;
  std::array<float*, kTileRows> gate_rows;
  std::array<float*, kTileRows> up_rows;
  for (int64_t i = 0; i < item.n_calls; ++i) {
    gate_rows[static_cast<size_t>(i)] = gate.data() + i * kTileCols;
    up_rows[static_cast<size_t>(i)] = up.data() + i * kTileCols;
  }
  const RowList rows = {.ids = grouped.rows.data() + item.first_call, .n = item.n_calls};
  multiply_strips(context, item.expert->gate, item.first_strip, item.n_strips, x, rows, gate_rows.data());
  multiply_strips(context, item.expert->up, item.first_strip, item.n_strips, x, rows, up_rows.data());
  const int64_t n = rows_of_strips(item.expert->gate, item.first_strip, item.n_strips);
  for (int64_t i = 0; i < item.n_calls; ++i) {
    const int32_t slot = grouped.slots[static_cast<size_t>(item.first_call + i)];
    activate(context, item.expert->activation, gate_rows[static_cast<size_t>(i)],
             up_rows[static_cast<size_t>(i)], n, h.row(slot) + item.first_strip * kernels::kStripRows);
  }
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
void for_each_item(OpContext& context, const std::vector<WorkItem>& items, const F& compute) {
  context.team.parallel_for(static_cast<int64_t>(items.size()), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) compute(items[static_cast<size_t>(i)]);
  });
}

}  // namespace

void group_by_expert(std::span<const int32_t> row_begin, std::span<const int32_t> ids, int64_t n_experts,
                     RowsByExpert& grouped) {
  std::vector<int32_t> next(static_cast<size_t>(n_experts) + 1, 0);
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
  const auto any_takes_q8 = [&](PackedMatrix ExpertWeights::*matrix) {
    return std::any_of(leases.begin(), leases.end(),
                       [&](const ExpertLease& lease) { return takes_q8(context, lease.weights.*matrix); });
  };
  {
    const Activations inputs(context, x,
                             any_takes_q8(&ExpertWeights::gate) || any_takes_q8(&ExpertWeights::up));
    for_each_item(context, cut_into_items(grouped, leases, &ExpertWeights::gate),
                  [&](const WorkItem& item) { gate_and_up(context, item, grouped, inputs, h); });
  }
  const Activations inner(context, h, any_takes_q8(&ExpertWeights::down));
  for_each_item(context, cut_into_items(grouped, leases, &ExpertWeights::down),
                [&](const WorkItem& item) { down(context, item, grouped, inner, y); });
}

void combine_experts(OpContext& context, std::span<const int32_t> row_begin, std::span<const int32_t> ids,
                     std::span<const float> weights, MatrixView<const float> y, MatrixView<float> out) {
  SOLI_CHECK(y.cols == out.cols && static_cast<int64_t>(row_begin.size()) == out.rows + 1);
  context.team.parallel_for(out.rows, 4, [&](int64_t begin, int64_t end, int) {
    std::vector<int32_t> slots;
    for (int64_t row = begin; row < end; ++row) {
      slots.clear();
      for (int32_t s = row_begin[static_cast<size_t>(row)]; s < row_begin[static_cast<size_t>(row) + 1];
           ++s) {
        slots.push_back(s);
      }
      std::sort(slots.begin(), slots.end(), [&](int32_t a, int32_t b) {
        return ids[static_cast<size_t>(a)] < ids[static_cast<size_t>(b)];
      });
      std::fill_n(out.row(row), out.cols, 0.0F);
      for (const int32_t slot : slots) {
        context.kernels.add_scaled(y.row(slot), weights[static_cast<size_t>(slot)], y.cols, out.row(row));
      }
    }
  });
}

}  // namespace soli
