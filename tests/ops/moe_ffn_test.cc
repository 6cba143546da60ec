// The expert feed-forward against a plain reference, for uneven groups, idle experts, odd sizes and waves.

#include "ops/moe_ffn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "ops/runtime.h"

namespace soli {
namespace {

/// A random matrix of a weight type, packed, with its exact values.
struct ExpertMatrix {
  ExpertMatrix(const kernels::WeightKernels& type, int64_t rows, int64_t cols, Rng& rng) {
    packed = {.type = &type, .data = nullptr, .rows = rows, .cols = cols};
    storage.resize(static_cast<size_t>(packed.packed_bytes()));
    values.resize(static_cast<size_t>(rows * cols));
    const int64_t row_bytes = type.row_bytes(cols);
    std::vector<float> row(static_cast<size_t>(cols));
    for (int64_t r = 0; r < rows; ++r) {
      for (float& value : row) value = static_cast<float>(rng.next_unit() - 0.5);
      type.quantize_row(row.data(), cols, storage.data() + r * row_bytes);
      type.dequantize_row(storage.data() + r * row_bytes, cols, values.data() + r * cols);
    }
    const std::vector<std::byte> gguf = storage;
    for (int64_t s = 0; s < packed.n_strips(); ++s) {
      type.pack_strip(gguf.data() + s * packed.strip_bytes(), cols,
                      storage.data() + s * packed.strip_bytes());
    }
    packed.data = storage.data();
  }
  std::vector<double> times(const std::vector<double>& x) const {
    std::vector<double> y(static_cast<size_t>(packed.rows), 0);
    for (size_t r = 0; r < y.size(); ++r) {
      for (size_t c = 0; c < x.size(); ++c) y[r] += static_cast<double>(values[r * x.size() + c]) * x[c];
    }
    return y;
  }
  PackedMatrix packed;
  std::vector<std::byte> storage;
  std::vector<float> values;
};

/// With biases where its hidden size is odd in units of 64.
struct TestExpert {
  TestExpert(const kernels::WeightKernels& type, int64_t hidden, int64_t width, Rng& rng)
      : gate(type, width, hidden, rng), up(type, width, hidden, rng), down(type, hidden, width, rng) {
    if (hidden / 64 % 2 == 0) return;
    gate_bias = biases(width, rng);
    up_bias = biases(width, rng);
    down_bias = biases(hidden, rng);
  }
  ExpertWeights weights() const {
    return {.gate = gate.packed,
            .up = up.packed,
            .down = down.packed,
            .gate_bias = gate_bias,
            .up_bias = up_bias,
            .down_bias = down_bias};
  }
  std::vector<double> run(const std::vector<double>& x) const {
    const auto g = biased(gate.times(x), gate_bias);
    auto h = biased(up.times(x), up_bias);
    for (size_t i = 0; i < h.size(); ++i) h[i] *= g[i] / (1 + std::exp(-g[i]));
    return biased(down.times(h), down_bias);
  }
  static std::vector<float> biases(int64_t n, Rng& rng) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& value : values) value = static_cast<float>(rng.next_below(1000)) / 500 - 1;
    return values;
  }
  static std::vector<double> biased(std::vector<double> y, const std::vector<float>& bias) {
    for (size_t i = 0; i < bias.size(); ++i) y[i] += static_cast<double>(bias[i]);
    return y;
  }
  ExpertMatrix gate;
  ExpertMatrix up;
  ExpertMatrix down;
  std::vector<float> gate_bias, up_bias, down_bias;
};

struct Shape {
  const char* type;
  int64_t n_experts;
  int64_t k;
  int64_t hidden;
  int64_t width;
  int64_t n_rows;
};

class MoeFfn : public testing::TestWithParam<std::tuple<std::string, Shape>> {
 protected:
  void SetUp() override {
    const auto& [isa, shape] = GetParam();
    runtime_ = std::move(*Runtime::create({.n_threads = 3, .isa = isa}));
    for (const kernels::WeightKernels& weights : runtime_->kernels().weights) {
      if (weights.name == shape.type) type_ = &weights;
    }
    ASSERT_NE(type_, nullptr);
    Rng rng(7);
    for (int64_t e = 0; e < shape.n_experts; ++e)
      experts_.emplace_back(*type_, shape.hidden, shape.width, rng);
    x_.resize(static_cast<size_t>(shape.n_rows * shape.hidden));
    for (float& value : x_) value = static_cast<float>(rng.next_unit() * 2 - 1);
    // Half of the rows crowd on the first experts, so that groups are uneven and some experts idle.
    row_begin_.push_back(0);
    for (int64_t row = 0; row < shape.n_rows; ++row) {
      const auto first =
          static_cast<int32_t>(row % 2 == 0 ? 0 : rng.next_below(static_cast<uint64_t>(shape.n_experts)));
      for (int32_t i = 0; i < shape.k; ++i)
        ids_.push_back((first + i * 3) % static_cast<int32_t>(shape.n_experts));
      row_begin_.push_back(static_cast<int32_t>(ids_.size()));
    }
    group_by_expert(row_begin_, ids_, shape.n_experts, grouped_);
  }

  /// Runs the groups in waves of `wave` experts, the last wave first.
  std::vector<float> run(ActivationPrecision activations, int64_t wave, ExpertMeter::Layer meter = {}) {
    const Shape& shape = std::get<Shape>(GetParam());
    OpContext context{runtime_->team(), runtime_->kernels(), activations};
    const auto n_slots = static_cast<int64_t>(ids_.size());
    std::vector<float> h(static_cast<size_t>(n_slots * shape.width));
    std::vector<float> y(static_cast<size_t>(n_slots * shape.hidden));
    soli::MoeFfn ffn(context, grouped_, {x_.data(), shape.n_rows, shape.hidden},
                     {h.data(), n_slots, shape.width}, {y.data(), n_slots, shape.hidden}, meter);
    for (int64_t end = grouped_.n_groups(); end > 0; end -= wave) {
      std::vector<ExpertLease> leases;
      for (int64_t g = std::max<int64_t>(0, end - wave); g < end; ++g) {
        const auto id = static_cast<size_t>(grouped_.experts[static_cast<size_t>(g)]);
        leases.push_back({g, experts_[id].weights()});
      }
      ffn.run(leases);
    }
    return y;
  }

  void expect_close(const std::vector<float>& y, double tolerance) const {
    const Shape& shape = std::get<Shape>(GetParam());
    double squares = 0;
    double total = 0;
    for (int64_t row = 0; row < shape.n_rows; ++row) {
      const std::vector<double> x(x_.begin() + row * shape.hidden, x_.begin() + (row + 1) * shape.hidden);
      for (int32_t slot = row_begin_[static_cast<size_t>(row)];
           slot < row_begin_[static_cast<size_t>(row) + 1]; ++slot) {
        const auto expected = experts_[static_cast<size_t>(ids_[static_cast<size_t>(slot)])].run(x);
        for (size_t i = 0; i < expected.size(); ++i) {
          const double difference =
              static_cast<double>(y[static_cast<size_t>(slot) * expected.size() + i]) - expected[i];
          squares += difference * difference;
          total += expected[i] * expected[i];
        }
      }
    }
    EXPECT_LE(std::sqrt(squares / std::max(total, 1e-30)), tolerance);
  }

  std::unique_ptr<Runtime> runtime_;
  const kernels::WeightKernels* type_ = nullptr;
  std::vector<TestExpert> experts_;
  std::vector<float> x_;
  std::vector<int32_t> row_begin_;
  std::vector<int32_t> ids_;
  RowsByExpert grouped_;
};

TEST_P(MoeFfn, EqualsThePlainReference) {
  expect_close(run(ActivationPrecision::kF32, 1000), 5e-6);
  expect_close(run(ActivationPrecision::kQ8, 1000), 3e-2);
}

TEST_P(MoeFfn, WavesGiveTheSameBits) {
  for (const ActivationPrecision activations : {ActivationPrecision::kF32, ActivationPrecision::kQ8}) {
    const auto at_once = run(activations, 1000);
    for (const int64_t wave : {1, 2, 4}) {
      const auto in_waves = run(activations, wave);
      EXPECT_EQ(std::memcmp(at_once.data(), in_waves.data(), at_once.size() * sizeof(float)), 0) << wave;
    }
  }
}

/// A clock that ticks when it is read, so that whatever is timed takes a tick or more.
std::atomic<int64_t> ffn_ticks{0};
int64_t next_ffn_tick() { return ffn_ticks.fetch_add(1); }

TEST_P(MoeFfn, AMeterCountsEveryCallAndChangesNoBit) {
  const int64_t n_experts = std::get<Shape>(GetParam()).n_experts;
  for (const int64_t wave : {1000, 2}) {
    ExpertMeter meter(3, n_experts, &next_ffn_tick);
    const auto expected = run(ActivationPrecision::kQ8, wave);
    const int64_t before = ffn_ticks;
    const auto metered = run(ActivationPrecision::kQ8, wave, meter.layer(1));
    const int64_t n_ticks = ffn_ticks - before;
    EXPECT_EQ(std::memcmp(expected.data(), metered.data(), expected.size() * sizeof(float)), 0) << wave;
    int64_t busy_ns = 0;
    for (int64_t e = 0; e < n_experts; ++e) {
      const ExpertWork work = meter.read(1, e);
      EXPECT_EQ(work.calls, std::count(ids_.begin(), ids_.end(), e)) << "expert " << e;
      // Once for gate and up, and once for down.
      EXPECT_GE(work.busy_ns, work.calls > 0 ? 2 : 0) << "expert " << e;
      EXPECT_TRUE(work.calls > 0 || work.busy_ns == 0) << "expert " << e;
      EXPECT_EQ(meter.read(0, e).calls + meter.read(2, e).calls, 0);
      EXPECT_EQ(meter.read(0, e).busy_ns + meter.read(2, e).busy_ns, 0);
      busy_ns += work.busy_ns;
    }
    EXPECT_LE(busy_ns, n_ticks * runtime_->team().size());
  }
}

std::vector<std::string> isas() {
  const auto available = kernels::available_isas();
  return {available.begin(), available.end()};
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MoeFfn,
    testing::Combine(testing::ValuesIn(isas()),
                     testing::Values(Shape{"F32", 1, 1, 8, 5, 1}, Shape{"F32", 3, 2, 20, 33, 17},
                                     Shape{"F32", 5, 5, 64, 16, 70}, Shape{"F16", 7, 2, 40, 24, 9},
                                     Shape{"BF16", 7, 2, 40, 24, 9}, Shape{"Q8_0", 60, 4, 64, 96, 33},
                                     Shape{"Q4_0", 6, 2, 96, 64, 130}, Shape{"Q4_K", 4, 2, 256, 512, 5},
                                     Shape{"Q5_K", 4, 1, 512, 256, 20}, Shape{"Q6_K", 3, 3, 256, 256, 66},
                                     Shape{"Q8_0", 384, 8, 32, 32, 0})));

TEST(Activation, ClampedSwiGluOfKnownValues) {
  for (const std::string_view isa : kernels::available_isas()) {
    const auto runtime = std::move(*Runtime::create({.n_threads = 1, .isa = isa}));
    const OpContext context{runtime->team(), runtime->kernels()};
    const std::vector<float> gate = {10, 0, -100, 7};
    const std::vector<float> up = {10, 3, 5, -20};
    std::vector<float> out(4);
    activate(context, Activation::kSwiGluClamped, gate.data(), up.data(), 4, out.data());
    EXPECT_FLOAT_EQ(out[0], 55.999625F);
    EXPECT_FLOAT_EQ(out[1], 0);
    EXPECT_NEAR(out[2], 0, 1e-6);
    EXPECT_FLOAT_EQ(out[3], -41.999719F);
  }
}

TEST(GroupByExpert, KeepsSlotsInOrderAndPassesOverIdleExperts) {
  RowsByExpert grouped;
  const std::vector<int32_t> row_begin = {0, 2, 2, 5};  // the second row chose nobody
  const std::vector<int32_t> ids = {4, 1, 1, 0, 4};
  group_by_expert(row_begin, ids, 6, grouped);
  EXPECT_EQ(grouped.experts, (std::vector<int32_t>{0, 1, 4}));
  EXPECT_EQ(grouped.begin, (std::vector<int32_t>{0, 1, 3, 5}));
  EXPECT_EQ(grouped.slots, (std::vector<int32_t>{3, 1, 2, 0, 4}));
  EXPECT_EQ(grouped.rows, (std::vector<int32_t>{2, 0, 2, 0, 2}));
}

TEST(CombineExperts, AddsInAscendingExpertIdWhateverTheOrderOfChoice) {
  const auto runtime = std::move(*Runtime::create({.n_threads = 2}));
  OpContext context{runtime->team(), runtime->kernels()};
  // Large values that cancel: the sum depends on its order.
  const std::vector<float> y_forward = {1e8F, 1.0F, -1e8F};
  const std::vector<float> y_backward = {-1e8F, 1.0F, 1e8F};
  const std::vector<float> ones = {1, 1, 1};
  const std::vector<int32_t> begin = {0, 3};
  float forward = -1;
  float backward = -1;
  combine_experts(context, begin, std::vector<int32_t>{2, 5, 9}, ones, {y_forward.data(), 3, 1},
                  {&forward, 1, 1});
  combine_experts(context, begin, std::vector<int32_t>{9, 5, 2}, ones, {y_backward.data(), 3, 1},
                  {&backward, 1, 1});
  EXPECT_EQ(forward, backward);
  float none = -1;
  combine_experts(context, std::vector<int32_t>{0, 0}, {}, {}, {nullptr, 0, 1}, {&none, 1, 1});
  EXPECT_EQ(none, 0.0F);
}

}  // namespace
}  // namespace soli
