#include <algorithm>
#include <limits>

#include "kernels/support.h"

namespace soli::kernels {
namespace {

using test::random_floats;
using test::same_bits;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Shape {
  bool f16;
  int64_t head_dim;
  int64_t value_dim;
};

/// Keys and values of one kv head, in pages as the kernels read them and as plain rows.
class Pages {
 public:
  Pages(const Shape& shape, int64_t n_keys, uint64_t seed)
      : shape_(shape),
        k_(random_floats(seed, n_keys * shape.head_dim)),
        v_(random_floats(seed + 1, n_keys * shape.value_dim)) {
    for (int64_t page = 0; page * kAttentionBlockKeys < n_keys; ++page) {
      // What lies beyond the last key must not matter: all ones are NaN.
      memory_.emplace_back(static_cast<size_t>(kOffset + kAttentionBlockKeys * row_bytes()), std::byte{0xff});
    }
    for (auto& page : memory_) pointers_.push_back(page.data());
    for (int64_t key = 0; key < n_keys; ++key) {
      for (int64_t d = 0; d < shape.head_dim; ++d)
        write(k_[index(key, d, shape.head_dim)], key_place(key, d));
      for (int64_t d = 0; d < shape.value_dim; ++d) {
        write(v_[index(key, d, shape.value_dim)], value_place(key, d));
      }
    }
  }

  /// Makes key and value of one position NaN in the pages.
  void poison(int64_t key) {
    float nan = kNan;
    for (int64_t d = 0; d < shape_.head_dim; ++d) write(nan, key_place(key, d));
    for (int64_t d = 0; d < shape_.value_dim; ++d) write(nan, value_place(key, d));
  }

  /// Attention of one query over keys [first, n_keys) in f64, of the numbers as stored, with the logit `sink`
  /// beside them.
  std::vector<double> reference(const float* q, int64_t first, int64_t n_keys, float scale,
                                double sink) const {
    std::vector<double> weights;
    for (int64_t key = first; key < n_keys; ++key) {
      double dot = 0;
      for (int64_t d = 0; d < shape_.head_dim; ++d) dot += double{q[d]} * k_[index(key, d, shape_.head_dim)];
      weights.push_back(dot * scale);
    }
    const double maximum = std::max(sink, *std::max_element(weights.begin(), weights.end()));
    double sum = std::exp(sink - maximum);
    for (double& w : weights) sum += w = std::exp(w - maximum);
    std::vector<double> out(static_cast<size_t>(shape_.value_dim));
    for (int64_t key = first; key < n_keys; ++key) {
      for (int64_t d = 0; d < shape_.value_dim; ++d) {
        out[static_cast<size_t>(d)] +=
            weights[static_cast<size_t>(key - first)] / sum * v_[index(key, d, shape_.value_dim)];
      }
    }
    return out;
  }

  const std::byte* const* data() const { return pointers_.data(); }
  int64_t k_offset() const { return kOffset; }
  int64_t v_offset() const { return kOffset + kAttentionBlockKeys * shape_.head_dim * number_bytes(); }
  const Shape& shape() const { return shape_; }

 private:
  static constexpr int64_t kOffset = 24;

  static size_t index(int64_t row, int64_t column, int64_t n) {
    return static_cast<size_t>(row * n + column);
  }
  int64_t number_bytes() const { return shape_.f16 ? 2 : 4; }
  int64_t row_bytes() const { return (shape_.head_dim + shape_.value_dim) * number_bytes(); }
  std::byte* place(int64_t key, int64_t offset, int64_t number) {
    return memory_[static_cast<size_t>(key / kAttentionBlockKeys)].data() + offset + number * number_bytes();
  }
  std::byte* key_place(int64_t key, int64_t d) {
    const int64_t slot = key % kAttentionBlockKeys;
    return place(key, k_offset(), slot / 16 * 16 * shape_.head_dim + d * 16 + slot % 16);
  }
  std::byte* value_place(int64_t key, int64_t d) {
    return place(key, v_offset(), key % kAttentionBlockKeys * shape_.value_dim + d);
  }
  /// Stores x, and leaves in it what was stored.
  void write(float& x, std::byte* to) {
    if (!shape_.f16) {
      std::memcpy(to, &x, sizeof x);
      return;
    }
    static const KernelTable& scalar = *select_kernels("scalar").value();
    half bits = 0;
    scalar.f32_to_f16(&x, 1, &bits);
    std::memcpy(to, &bits, sizeof bits);
    scalar.f16_to_f32(&bits, 1, &x);
  }

  Shape shape_;
  std::vector<float> k_, v_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<const std::byte*> pointers_;
};

/// Queries with the keys [first, n_keys) that each sees.
struct Queries {
  std::vector<float> q;
  std::vector<int64_t> first_keys;
  std::vector<int64_t> n_keys;
  std::vector<float> sinks;  // empty: none

  Queries(const Shape& shape, std::vector<int64_t> n_keys_in, uint64_t seed)
      : q(random_floats(seed, static_cast<int64_t>(n_keys_in.size()) * shape.head_dim)),
        first_keys(n_keys_in.size(), 0),
        n_keys(std::move(n_keys_in)) {}

  void see_the_last(int64_t window) {
    for (size_t i = 0; i < n_keys.size(); ++i) first_keys[i] = std::max<int64_t>(0, n_keys[i] - window);
  }
  double sink(size_t i) const {
    return sinks.empty() ? -std::numeric_limits<double>::infinity() : double{sinks[i]};
  }
};

/// Queries [begin, end) as one tile.
std::vector<float> run(const KernelTable& table, const Pages& pages, const Queries& queries, size_t begin,
                       size_t end) {
  const Shape& shape = pages.shape();
  std::vector<float> out((end - begin) * static_cast<size_t>(shape.value_dim), kNan);
  std::vector<const float*> q;
  std::vector<float*> to;
  for (size_t i = begin; i < end; ++i) {
    q.push_back(queries.q.data() + i * static_cast<size_t>(shape.head_dim));
    to.push_back(out.data() + (i - begin) * static_cast<size_t>(shape.value_dim));
  }
  std::vector<float> workspace(
      static_cast<size_t>(attention_workspace_floats(shape.head_dim, shape.value_dim)), kNan);
  const AttentionTile tile = {.q = q.data(),
                              .out = to.data(),
                              .first_keys = queries.first_keys.data() + begin,
                              .n_keys = queries.n_keys.data() + begin,
                              .sinks = queries.sinks.empty() ? nullptr : queries.sinks.data() + begin,
                              .n_queries = static_cast<int64_t>(end - begin),
                              .n_kv_heads = 1,
                              .pages = pages.data(),
                              .k_offset = pages.k_offset(),
                              .v_offset = pages.v_offset(),
                              .head_dim = shape.head_dim,
                              .value_dim = shape.value_dim,
                              .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim)),
                              .workspace = workspace.data()};
  (shape.f16 ? table.attention_f16 : table.attention_f32)(tile);
  return out;
}

/// The same in tiles of `size` queries.
std::vector<float> run_tiles(const KernelTable& table, const Pages& pages, const Queries& queries,
                             size_t size) {
  std::vector<float> out;
  for (size_t begin = 0; begin < queries.n_keys.size(); begin += size) {
    const auto part = run(table, pages, queries, begin, std::min(begin + size, queries.n_keys.size()));
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

std::vector<Shape> shapes() {
  std::vector<Shape> result;
  for (const bool f16 : {false, true}) {
    for (const auto& [head_dim, value_dim] :
         {std::pair{64, 64}, {80, 80}, {96, 48}, {128, 128}, {192, 128}, {20, 20}, {7, 33}, {2, 1}}) {
      result.push_back({f16, head_dim, value_dim});
    }
  }
  return result;
}

std::string name_of(const Shape& shape) {
  return fmt::format("{} {} {}", shape.f16 ? "f16" : "f32", shape.head_dim, shape.value_dim);
}

/// Around the limits of strips and pages, in no order.
const std::vector<int64_t> kSomeCounts = {1,  130, 2,  15, 64,  17, 63,  65, 16, 127, 33, 48,
                                          49, 128, 66, 80, 129, 1,  130, 81, 31, 32,  47, 79};

class AttentionKernel : public testing::TestWithParam<const KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Isa, AttentionKernel, testing::ValuesIn(test::all_tables()), test::isa_name);

void expect_definition(const KernelTable& table, const Pages& pages, const Queries& queries) {
  const auto head_dim = static_cast<size_t>(pages.shape().head_dim);
  const auto out = run(table, pages, queries, 0, queries.n_keys.size());
  for (size_t i = 0; i < queries.n_keys.size(); ++i) {
    const auto expected =
        pages.reference(queries.q.data() + i * head_dim, queries.first_keys[i], queries.n_keys[i],
                        1.0F / std::sqrt(static_cast<float>(head_dim)), queries.sink(i));
    for (size_t d = 0; d < expected.size(); ++d) {
      ASSERT_NEAR(out[i * expected.size() + d], expected[d], 3e-6)
          << queries.first_keys[i] << " to " << queries.n_keys[i] << ", " << d;
    }
  }
}

TEST_P(AttentionKernel, EqualsTheDefinition) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(name_of(shape));
    expect_definition(*GetParam(), Pages(shape, 130, 1), Queries(shape, kSomeCounts, 7));
  }
}

TEST_P(AttentionKernel, WindowsAndSinksEqualTheDefinition) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(name_of(shape));
    const Pages pages(shape, 130, 1);
    Queries queries(shape, kSomeCounts, 7);
    for (const int64_t window : {1, 2, 15, 16, 17, 63, 64, 65, 100, 130}) {
      queries.see_the_last(window);
      queries.sinks.clear();
      expect_definition(*GetParam(), pages, queries);
      queries.sinks = random_floats(static_cast<uint64_t>(window), static_cast<int64_t>(kSomeCounts.size()));
      expect_definition(*GetParam(), pages, queries);
    }
  }
}

TEST_P(AttentionKernel, ASinkMayOutweighAllKeys) {
  const Shape shape = {false, 16, 24};
  Queries queries(shape, {70}, 3);
  queries.sinks = {200.0F};
  const auto out = run(*GetParam(), Pages(shape, 70, 1), queries, 0, 1);
  for (const float value : out) EXPECT_EQ(value, 0.0F);
}

TEST_P(AttentionKernel, TilesDoNotChangeAQuery) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(name_of(shape));
    const Pages pages(shape, 192, 3);
    std::vector<int64_t> counts = kSomeCounts;
    for (int64_t n = 129; n < 169; ++n) counts.push_back(n);  // a chunk of a prompt
    ASSERT_EQ(static_cast<int64_t>(counts.size()), kAttentionTileQueries);
    Queries queries(shape, counts, 11);
    for (const int64_t window : {1000, 64, 33, 1}) {
      queries.see_the_last(window);
      queries.sinks = window == 33 ? random_floats(5, kAttentionTileQueries) : std::vector<float>();
      const auto alone = run_tiles(*GetParam(), pages, queries, 1);
      for (const size_t size : {2, 3, 5, 7, 8, 13, 64}) {
        EXPECT_TRUE(same_bits(run_tiles(*GetParam(), pages, queries, size), alone)) << size << " " << window;
      }
    }
  }
}

TEST_P(AttentionKernel, LaterKeysOfTheTileDoNotMatter) {
  for (const Shape& shape : shapes()) {
    SCOPED_TRACE(name_of(shape));
    Pages pages(shape, 64 + 40, 5);
    std::vector<int64_t> counts;
    for (int64_t n = 64 + 1; n <= 64 + 40; ++n) counts.push_back(n);
    const Queries queries(shape, counts, 13);
    const auto clean = run_tiles(*GetParam(), pages, queries, 40);
    for (const size_t bad : {38, 21, 16, 3}) {  // queries before `bad` do not see the key
      pages.poison(static_cast<int64_t>(64 + bad));
      const auto out = run_tiles(*GetParam(), pages, queries, 40);
      const size_t n_good = bad * static_cast<size_t>(shape.value_dim);
      EXPECT_EQ(std::memcmp(out.data(), clean.data(), n_good * sizeof(float)), 0) << bad;
      EXPECT_TRUE(std::isnan(out[n_good])) << bad;
    }
  }
}

TEST_P(AttentionKernel, ASingleKeyGivesItsValue) {
  const Shape shape = {false, 16, 24};
  const Pages pages(shape, 1, 17);
  const Queries queries(shape, {1}, 19);
  const auto expected = pages.reference(queries.q.data(), 0, 1, 1, queries.sink(0));
  const auto out = run(*GetParam(), pages, queries, 0, 1);
  for (size_t d = 0; d < expected.size(); ++d) EXPECT_EQ(out[d], expected[d]);
}

TEST(AttentionKernelIsas, GiveTheSameBits) {
  for (const Shape& shape : shapes()) {
    const Pages pages(shape, 130, 23);
    Queries queries(shape, kSomeCounts, 29);
    for (const int64_t window : {1000, 40}) {
      queries.see_the_last(window);
      if (window == 40) queries.sinks = random_floats(31, static_cast<int64_t>(kSomeCounts.size()));
      std::vector<float> expected;
      for (const KernelTable* table : test::all_tables()) {
        const auto out = run(*table, pages, queries, 0, kSomeCounts.size());
        if (expected.empty()) expected = out;
        EXPECT_TRUE(same_bits(out, expected)) << table->isa << " " << name_of(shape);
      }
    }
  }
}

}  // namespace
}  // namespace soli::kernels
