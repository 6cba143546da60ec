#include "ops/attention.h"

#include "kernels/support.h"
#include "ops/attention_inputs.h"

namespace soli {
namespace {

using test::random_floats;
using test::same_bits;

class Attention : public testing::TestWithParam<const kernels::KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Isa, Attention, testing::ValuesIn(test::all_tables()), test::isa_name);

/// A sequence with its pages, filled position by position from random keys and values.
struct Sequence {
  AttentionParams params;
  int64_t length;
  std::vector<float> k, v, q;
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> pages;

  Sequence(OpContext& context, AttentionParams params_in, int64_t length_in, uint64_t seed)
      : params(params_in), length(length_in) {
    const KvShape& shape = params.shape;
    k = random_floats(seed, length * shape.n_kv_heads * shape.head_dim);
    v = random_floats(seed + 1, length * shape.n_kv_heads * shape.value_dim);
    q = random_floats(seed + 2, length * params.n_heads * shape.head_dim);
    for (int64_t p = 0; p * kKvPagePositions < length; ++p) {
      // What lies beyond the sequence must not matter: all ones are NaN.
      memory.emplace_back(static_cast<size_t>(params.layer_offset + shape.layer_page_bytes()),
                          std::byte{0xff});
    }
    for (auto& page : memory) pages.push_back(page.data());
    const auto all = rows(0, length);
    auto queries = q;
    auto keys = k;
    const Rope still = {.head_dim = shape.head_dim, .inverse_frequencies = {}};
    const QueryKeyTransform none = {
        .q_norm = {}, .k_norm = {}, .rope = still, .rotations = {q.data(), length, 0}};
    transform_and_store(context, params, none, all, {queries.data(), length, params.n_heads * shape.head_dim},
                        {keys.data(), length, shape.n_kv_heads * shape.head_dim},
                        {v.data(), length, shape.n_kv_heads * shape.value_dim});
  }

  std::vector<AttentionRow> rows(int64_t begin, int64_t end) const {
    std::vector<AttentionRow> result;
    for (int64_t p = begin; p < end; ++p) result.push_back({p, pages});
    return result;
  }

  std::vector<float> run(OpContext& context, int64_t begin, int64_t end) const {
    const int64_t q_cols = params.n_heads * params.shape.head_dim;
    const int64_t out_cols = params.n_heads * params.shape.value_dim;
    std::vector<float> out(static_cast<size_t>((end - begin) * out_cols));
    attention(context, params, rows(begin, end), {q.data() + begin * q_cols, end - begin, q_cols},
              {out.data(), end - begin, out_cols});
    return out;
  }

  /// One head of one row in f64.
  std::vector<double> reference(int64_t position, int64_t head) const {
    const KvShape& shape = params.shape;
    const int64_t kv_head = head / (params.n_heads / shape.n_kv_heads);
    const int64_t first = params.window == 0 ? 0 : std::max<int64_t>(0, position - params.window + 1);
    const double sink = params.sinks.empty() ? -INFINITY : double{params.sinks[static_cast<size_t>(head)]};
    std::vector<double> p(static_cast<size_t>(position + 1), -INFINITY);
    double max = sink;
    for (int64_t j = first; j <= position; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < shape.head_dim; ++d) {
        dot += double{q[static_cast<size_t>((position * params.n_heads + head) * shape.head_dim + d)]} *
               double{k[static_cast<size_t>((j * shape.n_kv_heads + kv_head) * shape.head_dim + d)]};
      }
      p[static_cast<size_t>(j)] = dot * params.scale;
      max = std::max(max, p[static_cast<size_t>(j)]);
    }
    double sum = std::exp(sink - max);
    for (double& w : p) sum += w = std::exp(w - max);
    std::vector<double> out(static_cast<size_t>(shape.value_dim));
    for (int64_t j = 0; j <= position; ++j) {
      for (int64_t d = 0; d < shape.value_dim; ++d) {
        out[static_cast<size_t>(d)] +=
            p[static_cast<size_t>(j)] / sum *
            double{v[static_cast<size_t>((j * shape.n_kv_heads + kv_head) * shape.value_dim + d)]};
      }
    }
    return out;
  }
};

AttentionParams params_of(KvType type, int64_t n_kv_heads, int64_t ratio, int64_t head_dim,
                          int64_t value_dim) {
  return {.shape = {type, n_kv_heads, head_dim, value_dim},
          .layer_offset = 192,
          .n_heads = n_kv_heads * ratio,
          .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
}

void expect_close(const Sequence& s, const std::vector<float>& out, int64_t begin, int64_t end,
                  double tolerance) {
  const int64_t value_dim = s.params.shape.value_dim;
  for (int64_t position = begin; position < end; ++position) {
    for (int64_t head = 0; head < s.params.n_heads; ++head) {
      const auto expected = s.reference(position, head);
      for (int64_t d = 0; d < value_dim; ++d) {
        const size_t i = static_cast<size_t>(((position - begin) * s.params.n_heads + head) * value_dim + d);
        ASSERT_NEAR(out[i], expected[static_cast<size_t>(d)], tolerance)
            << position << " head " << head << " " << d;
      }
    }
  }
}

TEST_P(Attention, EqualsTheDefinition) {
  ThreadTeam team(2);
  OpContext context{team, *GetParam()};
  for (int64_t ratio : {1, 3, 8}) {
    for (const auto& [head_dim, value_dim] : {std::pair{24, 24}, {80, 80}, {128, 64}, {7, 13}}) {
      for (int64_t length : {1, 63, 64, 65, 200}) {
        SCOPED_TRACE(fmt::format("ratio {} head {} value {} length {}", ratio, head_dim, value_dim, length));
        const auto params = params_of(KvType::kF32, 2, ratio, head_dim, value_dim);
        const Sequence s(context, params, length, static_cast<uint64_t>(length));
        const int64_t begin = std::max<int64_t>(0, length - 2);
        expect_close(s, s.run(context, begin, length), begin, length, 3e-6);
        const auto half_params = params_of(KvType::kF16, 2, ratio, head_dim, value_dim);
        const Sequence h(context, half_params, length, static_cast<uint64_t>(length));
        expect_close(h, h.run(context, begin, length), begin, length, 5e-3);
      }
    }
  }
}

TEST_P(Attention, WindowsAndSinksOfEachHeadEqualTheDefinition) {
  ThreadTeam team(2);
  OpContext context{team, *GetParam()};
  const std::vector<float> sinks = random_floats(9, 6);
  for (const int64_t window : {0, 1, 16, 64, 90, 300}) {
    for (const bool has_sinks : {false, true}) {
      SCOPED_TRACE(fmt::format("window {} sinks {}", window, has_sinks));
      AttentionParams params = params_of(KvType::kF32, 2, 3, 24, 20);
      params.window = window;
      if (has_sinks) params.sinks = sinks;
      const Sequence s(context, params, 150, 5);
      const auto all = s.run(context, 0, 150);
      expect_close(s, all, 0, 150, 3e-6);
      std::vector<float> chunks;
      for (int64_t begin = 0; begin < 150; begin += 50) {
        const auto part = s.run(context, begin, begin + 50);
        chunks.insert(chunks.end(), part.begin(), part.end());
      }
      EXPECT_TRUE(same_bits(chunks, all));
    }
  }
}

TEST_P(Attention, ChunksAndThreadsDoNotChangeARow) {
  ThreadTeam one(1);
  OpContext plain{one, *GetParam()};
  for (const auto& [type, n_kv_heads, ratio] : {std::tuple{KvType::kF32, 2, 3},
                                                {KvType::kF16, 2, 3},
                                                {KvType::kF16, 5, 1},
                                                {KvType::kF16, 1, 4},
                                                {KvType::kF32, 1, 66}}) {
    SCOPED_TRACE(fmt::format("{} kv heads, ratio {}", n_kv_heads, ratio));
    const Sequence s(plain, params_of(type, n_kv_heads, ratio, 24, 20), 150, 5);
    const auto all = s.run(plain, 0, 150);
    for (const int n_threads : {1, 2, 4}) {
      ThreadTeam team(n_threads);
      OpContext context{team, *GetParam()};
      for (const int64_t chunk : {1, 7, 16, 70}) {
        std::vector<float> chunks;
        for (int64_t begin = 0; begin < 150; begin += chunk) {
          const auto part = s.run(context, begin, std::min<int64_t>(150, begin + chunk));
          chunks.insert(chunks.end(), part.begin(), part.end());
        }
        EXPECT_TRUE(same_bits(chunks, all)) << n_threads << " threads, chunks of " << chunk;
      }
    }
  }
}

TEST_P(Attention, SequencesOfABatchDoNotMeet) {
  for (int n_threads : {1, 2, 3}) {
    ThreadTeam team(n_threads);
    OpContext context{team, *GetParam()};
    const AttentionParams params = params_of(KvType::kF16, 3, 2, 20, 24);
    const Sequence a(context, params, 130, 1);
    const Sequence b(context, params, 70, 2);
    const Sequence c(context, params, 3, 3);
    const int64_t q_cols = params.n_heads * params.shape.head_dim;
    const int64_t out_cols = params.n_heads * params.shape.value_dim;
    std::vector<AttentionRow> rows;
    std::vector<float> q, expected;
    const auto append = [&](const Sequence& s, int64_t begin, int64_t end) {
      const auto s_rows = s.rows(begin, end);
      rows.insert(rows.end(), s_rows.begin(), s_rows.end());
      q.insert(q.end(), s.q.begin() + begin * q_cols, s.q.begin() + end * q_cols);
      const auto out = s.run(context, begin, end);
      expected.insert(expected.end(), out.begin(), out.end());
    };
    append(c, 2, 3);
    append(a, 129, 130);
    append(b, 0, 70);
    append(a, 60, 64);
    append(c, 0, 2);
    const auto n_rows = static_cast<int64_t>(rows.size());
    std::vector<float> out(static_cast<size_t>(n_rows * out_cols));
    attention(context, params, rows, {q.data(), n_rows, q_cols}, {out.data(), n_rows, out_cols});
    EXPECT_TRUE(same_bits(out, expected)) << n_threads << " threads";
  }
}

TEST(AttentionIsas, GiveTheSameBits) {
  ThreadTeam team(1);
  for (KvType type : {KvType::kF32, KvType::kF16}) {
    for (int64_t dim : {7, 24, 64}) {
      std::vector<float> expected;
      for (const kernels::KernelTable* table : test::all_tables()) {
        OpContext context{team, *table};
        const Sequence s(context, params_of(type, 1, 5, dim, dim + 3), 70, 3);
        const auto out = s.run(context, 0, 70);
        if (expected.empty()) expected = out;
        EXPECT_TRUE(same_bits(out, expected)) << table->isa;
      }
    }
  }
}

}  // namespace
}  // namespace soli
