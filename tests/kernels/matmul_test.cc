// Every weight type's multiplication on every ISA: the same bits everywhere, for any batch, and the right
// values.

#include "kernels/support.h"

namespace soli {
namespace {

using kernels::KernelTable;
using kernels::Q8Row;
using kernels::WeightKernels;
using test::random_floats;
using test::random_matrix;
using test::same_bits;
using test::TestMatrix;

constexpr int64_t kTokenCounts[] = {1, 2, 3, 5, 7, 8, 13, 14, 16, 17, 31, 33, 64, 70};
constexpr int64_t kMaxTokens = 70;

/// The shapes that a type's blocks allow, of those where other engines went wrong.
std::vector<std::pair<int64_t, int64_t>> shapes_of(const WeightKernels& type) {
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 64},
                                   {15, 192},
                                   {16, 320},
                                   {100, 64},
                                   {17, 256},
                                   {15, 2048},
                                   {1, 2880},
                                   {17, 2816}}) {
    if (cols % type.block_elements == 0) shapes.emplace_back(rows, cols);
  }
  return shapes;
}

std::string describe(const WeightKernels& type, int64_t rows, int64_t cols, int64_t n_tokens) {
  return fmt::format("{} [{} x {}], {} tokens", type.name, rows, cols, n_tokens);
}

/// Activations [n_tokens][cols] whose rows do not follow each other in memory.
struct Activations {
  int64_t cols;
  std::vector<float> memory;

  Activations(int64_t cols_in, uint64_t seed)
      : cols(cols_in), memory(random_floats(seed, kMaxTokens * (cols_in + 5))) {}
  const float* row(int64_t t) const { return memory.data() + (kMaxTokens - 1 - t) * (cols + 5); }
};

/// Outputs of n_tokens rows, with a guard after every row.
struct Outputs {
  static constexpr float kGuard = 12345.0F;
  int64_t rows;
  std::vector<float> memory;
  std::vector<float*> pointers;

  Outputs(int64_t n_tokens, int64_t rows_in)
      : rows(rows_in), memory(static_cast<size_t>(n_tokens * (rows + 1)), kGuard) {
    for (int64_t t = 0; t < n_tokens; ++t) pointers.push_back(memory.data() + t * (rows + 1));
  }
  void expect_guards() const {
    for (const float* row : pointers) EXPECT_EQ(row[rows], kGuard);
  }
};

Outputs run_f32(const TestMatrix& m, const WeightKernels& type, const Activations& x, int64_t n_tokens) {
  Outputs y(n_tokens, m.rows);
  std::vector<const float*> rows;
  for (int64_t t = 0; t < n_tokens; ++t) rows.push_back(x.row(t));
  type.matmul_f32({m.packed.data(), m.rows, m.cols, rows.data(), n_tokens, y.pointers.data()});
  y.expect_guards();
  return y;
}

/// Quantised activations in memory of their own.
struct Q8Activations {
  std::vector<std::vector<int8_t>> values;
  std::vector<std::vector<float>> scales;
  std::vector<std::vector<int32_t>> sums;
  std::vector<Q8Row> rows;

  Q8Activations(const KernelTable& table, const Activations& x) {
    const auto n_blocks = static_cast<size_t>(x.cols / 32);
    for (int64_t t = 0; t < kMaxTokens; ++t) {
      values.emplace_back(static_cast<size_t>(x.cols));
      scales.emplace_back(n_blocks);
      sums.emplace_back(n_blocks);
      EXPECT_TRUE(table.quantize_q8(x.row(t), x.cols, values.back().data(), scales.back().data(),
                                    sums.back().data()));
      rows.push_back({values.back().data(), scales.back().data(), sums.back().data()});
    }
  }
};

Outputs run_q8(const TestMatrix& m, const WeightKernels& type, const Q8Activations& x, int64_t n_tokens) {
  Outputs y(n_tokens, m.rows);
  type.matmul_q8({m.packed.data(), m.rows, m.cols, x.rows.data(), n_tokens, y.pointers.data()});
  y.expect_guards();
  return y;
}

void expect_close_to_f64(const TestMatrix& m, const Activations& x, const Outputs& y) {
  for (size_t t = 0; t < y.pointers.size(); ++t) {
    for (int64_t r = 0; r < m.rows; ++r) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < m.cols; ++k) {
        const double product =
            double{m.values[static_cast<size_t>(r * m.cols + k)]} * double{x.row(static_cast<int64_t>(t))[k]};
        sum += product;
        magnitude += std::abs(product);
      }
      ASSERT_NEAR(y.pointers[t][r], sum, 2e-6 * magnitude) << "token " << t << " row " << r;
    }
  }
}

class Matmul : public testing::TestWithParam<const KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Isa, Matmul, testing::ValuesIn(test::all_tables()), test::isa_name);

TEST_P(Matmul, F32EqualsTheOracleWeightsInAnyBatch) {
  for (const WeightKernels& type : GetParam()->weights) {
    for (const auto& [rows, cols] : shapes_of(type)) {
      const TestMatrix m = random_matrix(type, rows, cols, 1);
      const Activations x(cols, 2);
      const Outputs all = run_f32(m, type, x, kMaxTokens);
      expect_close_to_f64(m, x, all);
      for (int64_t n_tokens : kTokenCounts) {
        const Outputs some = run_f32(m, type, x, n_tokens);
        EXPECT_EQ(std::memcmp(some.memory.data(), all.memory.data(), some.memory.size() * 4), 0)
            << describe(type, rows, cols, n_tokens);
      }
    }
  }
}

TEST_P(Matmul, F32IsOneFmaPerWeightInAscendingOrder) {
  for (const WeightKernels& type : GetParam()->weights) {
    const TestMatrix m = random_matrix(type, 20, 512, 3);
    const Activations x(512, 4);
    const Outputs y = run_f32(m, type, x, 3);
    for (int64_t t = 0; t < 3; ++t) {
      for (int64_t r = 0; r < 20; ++r) {
        float sum = 0;
        for (int64_t k = 0; k < 512; ++k)
          sum = std::fma(m.values[static_cast<size_t>(r * 512 + k)], x.row(t)[k], sum);
        EXPECT_EQ(y.pointers[static_cast<size_t>(t)][r], sum) << type.name;
      }
    }
  }
}

/// The canonical arithmetic of Q8_0 (kernels/quant/q8_0-inl.h) from the GGUF bytes, in plain C++.
float q8_0_reference(const TestMatrix& m, int64_t row, const Q8Row& x) {
  float sum = 0;
  for (int64_t b = 0; b < m.cols / 32; ++b) {
    const std::byte* block = m.gguf.data() + row * m.type->row_bytes(m.cols) + b * 34;
    // The scale is the value of a block whose only number is 1.
    std::byte unit[34] = {block[0], block[1], std::byte{1}};
    float values[32];
    m.type->dequantize_row(unit, 32, values);
    int32_t dot = 0;
    for (int64_t i = 0; i < 32; ++i) dot += static_cast<int8_t>(block[2 + i]) * x.values[b * 32 + i];
    sum = std::fma(static_cast<float>(dot), values[0] * x.scales[b], sum);
  }
  return sum;
}

TEST_P(Matmul, Q8OfQ8_0EqualsTheIntegerReference) {
  const WeightKernels& type = *GetParam()->find(8);
  for (const auto& [rows, cols] : shapes_of(type)) {
    const TestMatrix m = random_matrix(type, rows, cols, 5);
    const Q8Activations x(*GetParam(), Activations(cols, 6));
    const Outputs all = run_q8(m, type, x, kMaxTokens);
    for (size_t t = 0; t < static_cast<size_t>(kMaxTokens); ++t) {
      for (int64_t r = 0; r < rows; ++r) {
        const float expected = q8_0_reference(m, r, x.rows[t]);
        ASSERT_EQ(std::memcmp(&all.pointers[t][r], &expected, 4), 0)
            << describe(type, rows, cols, kMaxTokens);
      }
    }
  }
}

/// Integer dots are exact, so that only the rounding of the accumulation separates the result from f64
/// arithmetic on the quantised operands.
void expect_q8_close_to_f64(const TestMatrix& m, const Q8Activations& x, const Outputs& y) {
  for (size_t t = 0; t < y.pointers.size(); ++t) {
    for (int64_t r = 0; r < m.rows; ++r) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < m.cols; ++k) {
        const double activation = double{x.rows[t].scales[k / 32]} * x.rows[t].values[k];
        const double product = double{m.values[static_cast<size_t>(r * m.cols + k)]} * activation;
        sum += product;
        magnitude += std::abs(product);
      }
      // Types with minima subtract sums that are larger than their difference.
      ASSERT_NEAR(y.pointers[t][r], sum, 4e-6 * magnitude) << "token " << t << " row " << r;
    }
  }
}

TEST_P(Matmul, Q8OfEveryTypeEqualsF64OnTheQuantisedOperandsInAnyBatch) {
  for (const WeightKernels& type : GetParam()->weights) {
    if (type.block_elements == 1) {
      EXPECT_EQ(type.matmul_q8, nullptr) << type.name;
      continue;
    }
    ASSERT_NE(type.matmul_q8, nullptr) << type.name;
    for (const auto& [rows, cols] : shapes_of(type)) {
      SCOPED_TRACE(describe(type, rows, cols, kMaxTokens));
      const TestMatrix m = random_matrix(type, rows, cols, 11);
      const Q8Activations x(*GetParam(), Activations(cols, 12));
      const Outputs all = run_q8(m, type, x, kMaxTokens);
      expect_q8_close_to_f64(m, x, all);
      for (int64_t n_tokens : kTokenCounts) {
        const Outputs some = run_q8(m, type, x, n_tokens);
        EXPECT_EQ(std::memcmp(some.memory.data(), all.memory.data(), some.memory.size() * 4), 0) << n_tokens;
      }
    }
  }
}

TEST_P(Matmul, Q8IsExactAtTheEndsOfItsRange) {
  const WeightKernels& type = *GetParam()->find(8);
  // Weights of -128 do not come from our quantiser, but may come from a file.
  TestMatrix m = random_matrix(type, 16, 64, 7);
  for (size_t i = 0; i < m.gguf.size(); ++i) {
    if (i % 34 >= 2) m.gguf[i] = static_cast<std::byte>(i % 3 == 0 ? 127 : -128);
  }
  type.pack_strip(m.gguf.data(), 64, m.packed.data());
  Activations ends(64, 8);
  for (size_t i = 0; i < ends.memory.size(); ++i) ends.memory[i] = i % 5 == 0 ? 1.0F : -1.0F;
  const Q8Activations x(*GetParam(), ends);
  const Outputs y = run_q8(m, type, x, 16);
  for (size_t t = 0; t < 16; ++t) {
    for (int64_t r = 0; r < 16; ++r) EXPECT_EQ(y.pointers[t][r], q8_0_reference(m, r, x.rows[t]));
  }
}

TEST(MatmulIsas, GiveTheSameBits) {
  const auto tables = test::all_tables();
  for (const WeightKernels& type : tables.front()->weights) {
    for (const auto& [rows, cols] : shapes_of(type)) {
      const TestMatrix m = random_matrix(type, rows, cols, 9);
      const Activations x(cols, 10);
      const Outputs expected = run_f32(m, type, x, 19);
      for (const KernelTable* table : tables) {
        const WeightKernels& other = *table->find(type.gguf_type);
        EXPECT_TRUE(same_bits(run_f32(m, other, x, 19).memory, expected.memory))
            << table->isa << " " << describe(type, rows, cols, 19);
        if (type.matmul_q8 == nullptr) {
          EXPECT_EQ(other.matmul_q8, nullptr);
          continue;
        }
        const Q8Activations q(*table, x);
        EXPECT_TRUE(same_bits(run_q8(m, other, q, 19).memory, run_q8(m, type, q, 19).memory)) << table->isa;
      }
    }
  }
}

}  // namespace
}  // namespace soli
