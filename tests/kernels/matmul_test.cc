// Every weight type's multiplication on every ISA: the same bits everywhere, for any batch, and the right
// values.

#include "kernels/half.h"
#include "kernels/integer_reference.h"
#include "kernels/isa/isa.h"
#include "kernels/support.h"

namespace soli {
namespace {

using kernels::ActivationForm;
using kernels::KernelTable;
using kernels::Q8Of256Block;
using kernels::Q8Of32Block;
using kernels::WeightKernels;
using test::integer_reference;
using test::IntegerActivations;
using test::random_floats;
using test::random_matrix;
using test::same_bits;
using test::TestMatrix;

constexpr int64_t kMaxTokens = 70;
constexpr int64_t kSomeTokenCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 14, 16, 17, 31, 33, 64, 70};

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
                                   {17, 2816},
                                   {147, 512},
                                   {90, 288},
                                   {70, 30},
                                   {33, 2},
                                   {65, 7}}) {
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

using Matmul = void (*)(const kernels::MatmulTile&);

Outputs run(const TestMatrix& m, Matmul matmul, const std::vector<const void*>& x, int64_t n_tokens) {
  Outputs y(n_tokens, m.rows);
  matmul({m.packed.data(), m.rows, m.cols, x.data(), n_tokens, y.pointers.data()});
  y.expect_guards();
  return y;
}

Outputs run_f32(const TestMatrix& m, const WeightKernels& type, const Activations& x, int64_t n_tokens) {
  std::vector<const void*> rows;
  for (int64_t t = 0; t < n_tokens; ++t) rows.push_back(x.row(t));
  return run(m, type.matmul_f32, rows, n_tokens);
}

/// Activations in the form that a weight type's fast product takes, each row in memory of its own, so that a
/// reader that goes too far is seen by the address sanitizer.
struct Converted {
  std::vector<std::vector<std::byte>> memory;
  std::vector<const void*> rows;

  Converted(const KernelTable& table, ActivationForm form, const Activations& x) {
    for (int64_t t = 0; t < kMaxTokens; ++t) {
      const int64_t bytes = kernels::activation_row_bytes(form, x.cols);
      memory.emplace_back(static_cast<size_t>(bytes + 64));
      void* row = memory.back().data();
      size_t room = memory.back().size();
      std::align(64, static_cast<size_t>(bytes), row, room);
      convert(table, form, x.row(t), x.cols, row);
      rows.push_back(row);
    }
  }

  static void convert(const KernelTable& table, ActivationForm form, const float* x, int64_t cols,
                      void* row) {
    switch (form) {
      case ActivationForm::kF32:
        std::memcpy(row, x, static_cast<size_t>(cols) * sizeof(float));
        return;
      case ActivationForm::kBf16:
        return table.to_bf16(x, cols, static_cast<uint16_t*>(row));
      case ActivationForm::kQ8Of32:
        EXPECT_TRUE(table.to_q8_of_32(x, cols, static_cast<Q8Of32Block*>(row)));
        return;
      case ActivationForm::kQ8Of256:
        EXPECT_TRUE(table.to_q8_of_256(x, cols, static_cast<Q8Of256Block*>(row)));
        return;
    }
  }
};

Outputs run_partner(const TestMatrix& m, const WeightKernels& type, const Converted& x, int64_t n_tokens) {
  return run(m, type.matmul_partner, x.rows, n_tokens);
}

bool is_integer(const WeightKernels& type) {
  return type.partner == ActivationForm::kQ8Of32 || type.partner == ActivationForm::kQ8Of256;
}

/// The 8-bit numbers of a converted row.
IntegerActivations integers_of(ActivationForm form, const void* row, int64_t cols) {
  IntegerActivations x;
  x.scale_elements = form == ActivationForm::kQ8Of32 ? 32 : 256;
  for (int64_t k = 0; k < cols; ++k) {
    if (form == ActivationForm::kQ8Of32) {
      const Q8Of32Block& block = static_cast<const Q8Of32Block*>(row)[k / 256];
      x.values.push_back(block.values[k % 256]);
      if (k % 32 == 0) x.scales.push_back(block.scales[k % 256 / 32]);
    } else {
      const Q8Of256Block& block = static_cast<const Q8Of256Block*>(row)[k / 256];
      x.values.push_back(block.values[k % 256]);
      if (k % 256 == 0) x.scales.push_back(block.scale);
    }
  }
  return x;
}

/// Whether `some` has the bits of the first tokens of `all`.
bool begins_with(const Outputs& all, const Outputs& some) {
  return std::memcmp(some.memory.data(), all.memory.data(), some.memory.size() * sizeof(float)) == 0;
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

class MatmulOfIsa : public testing::TestWithParam<const KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Isa, MatmulOfIsa, testing::ValuesIn(test::all_tables()), test::isa_name);

/// What is read afterwards is only asked for; passes of many tokens end where others begin.
TEST_P(MatmulOfIsa, NeitherWhatIsNextNorPassesMatter) {
  for (const WeightKernels& type : GetParam()->weights) {
    for (const int64_t rows : {17, 84, 147}) {
      const TestMatrix m = random_matrix(type, rows, 512, 20);
      const TestMatrix next = random_matrix(type, rows, 512, 21);
      const Activations x(512, 22);
      const Converted converted(*GetParam(), type.partner, x);
      const Outputs each = run_partner(m, type, converted, kMaxTokens);
      for (const int64_t n_tokens : {1, 5, 12, 70, 200}) {
        std::vector<const void*> tokens;
        for (int64_t t = 0; t < n_tokens; ++t)
          tokens.push_back(converted.rows[static_cast<size_t>(t * 7 % kMaxTokens)]);
        Outputs y(n_tokens, rows);
        type.matmul_partner(
            {m.packed.data(), rows, 512, tokens.data(), n_tokens, y.pointers.data(), next.packed.data()});
        y.expect_guards();
        for (int64_t t = 0; t < n_tokens; ++t) {
          const auto* expected = each.pointers[static_cast<size_t>(t * 7 % kMaxTokens)];
          ASSERT_EQ(std::memcmp(y.pointers[static_cast<size_t>(t)], expected,
                                static_cast<size_t>(rows) * sizeof(float)),
                    0)
              << describe(type, rows, 512, n_tokens) << ": token " << t;
        }
      }
    }
  }
}

TEST_P(MatmulOfIsa, F32EqualsTheOracleWeightsInAnyBatch) {
  for (const WeightKernels& type : GetParam()->weights) {
    for (const auto& [rows, cols] : shapes_of(type)) {
      const TestMatrix m = random_matrix(type, rows, cols, 1);
      const Activations x(cols, 2);
      const Outputs all = run_f32(m, type, x, kMaxTokens);
      expect_close_to_f64(m, x, all);
      for (int64_t n_tokens : kSomeTokenCounts) {
        EXPECT_TRUE(begins_with(all, run_f32(m, type, x, n_tokens))) << describe(type, rows, cols, n_tokens);
      }
    }
  }
}

TEST_P(MatmulOfIsa, F32IsOneFmaPerWeightInAscendingOrder) {
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

/// Replaces 16-bit scales by finite ones; all other bits of a block may be anything.
void make_scales_finite(TestMatrix& m) {
  std::vector<int> places;
  if (m.type->gguf_type == 40) return;  // NVFP4, whose 8-bit scales all are
  switch (m.type->gguf_type) {
    case 10:
      places = {80, 82};
      break;
    case 11:
      places = {108};
      break;
    case 14:
      places = {208};
      break;
    case 29:
      places = {54};  // the upper four bits of the scale
      break;
    case 34:
      places = {52};
      break;
    case 35:
      places = {64};
      break;
    case 39:
      break;
    case 3:
    case 7:
    case 12:
    case 13:
      places = {0, 2};
      break;
    default:
      places = {0};
  }
  for (size_t block = 0; block < m.gguf.size(); block += static_cast<size_t>(m.type->block_bytes)) {
    // The exponent's upper bit: 2^-14 to 2.
    for (const int place : places) m.gguf[block + static_cast<size_t>(place) + 1] &= std::byte{0xbf};
    if (places.empty()) m.gguf[block] = std::byte{120} ^ (m.gguf[block] & std::byte{15});
  }
}

/// Normal numbers, with outliers in some rows (field report 7).
Activations with_outliers(int64_t cols, uint64_t seed) {
  Activations x(cols, seed);
  for (size_t i = 0; i < x.memory.size(); i += 997) x.memory[i] = i % 2 == 0 ? 1e4F : -1e4F;
  return x;
}

TEST_P(MatmulOfIsa, IntegerDotsEqualTheReferenceForAnyNumberOfRows) {
  for (const WeightKernels& type : GetParam()->weights) {
    if (!is_integer(type)) continue;
    for (const auto& [rows, cols] : shapes_of(type)) {
      const TestMatrix m = random_matrix(type, rows, cols, 5);
      const Converted x(*GetParam(), type.partner, with_outliers(cols, 6));
      const Outputs all = run_partner(m, type, x, kMaxTokens);
      for (size_t t = 0; t < static_cast<size_t>(kMaxTokens); ++t) {
        const IntegerActivations integers = integers_of(type.partner, x.rows[t], cols);
        for (int64_t r = 0; r < rows; ++r) {
          const float expected = integer_reference(m, r, integers);
          ASSERT_EQ(kernels::bits_of(all.pointers[t][r]), kernels::bits_of(expected))
              << describe(type, rows, cols, kMaxTokens) << ": token " << t << ", row " << r << ": "
              << all.pointers[t][r] << " for " << expected;
        }
      }
      for (int64_t n_tokens = 1; n_tokens < kMaxTokens; ++n_tokens) {
        ASSERT_TRUE(begins_with(all, run_partner(m, type, x, n_tokens)))
            << describe(type, rows, cols, n_tokens);
      }
    }
  }
}

/// Every bit pattern of numbers and scales, also those that no quantiser writes.
TEST_P(MatmulOfIsa, IntegerDotsEqualTheReferenceForAnyBits) {
  Rng rng(15);
  for (const WeightKernels& type : GetParam()->weights) {
    if (!is_integer(type)) continue;
    constexpr int64_t kRows = 32, kCols = 512;
    TestMatrix m = random_matrix(type, kRows, kCols, 7);
    for (std::byte& byte : m.gguf) byte = static_cast<std::byte>(rng.next_u64());
    make_scales_finite(m);
    test::pack(m);
    Activations ends(kCols, 8);  // the ends of the range, which are the largest sums
    for (float& value : ends.memory) value = rng.next_u64() % 2 == 0 ? 1.0F : -1.0F;
    const Converted x(*GetParam(), type.partner, ends);
    const Outputs y = run_partner(m, type, x, 16);
    for (size_t t = 0; t < 16; ++t) {
      const IntegerActivations integers = integers_of(type.partner, x.rows[t], kCols);
      for (int64_t r = 0; r < kRows; ++r) {
        const float expected = integer_reference(m, r, integers);
        ASSERT_EQ(kernels::bits_of(y.pointers[t][r]), kernels::bits_of(expected)) << type.name;
      }
    }
  }
}

/// The canonical arithmetic of bfloat16 dots, denormals included.
TEST_P(MatmulOfIsa, Bf16DotsEqualTheReferenceForAnyNumberOfRows) {
  const WeightKernels& type = *GetParam()->find(30);
  ASSERT_EQ(type.partner, ActivationForm::kBf16);
  const auto flush = [](float v) { return std::fabs(v) < 0x1p-126F ? std::copysign(0.0F, v) : v; };
  for (const auto& [rows, cols] : shapes_of(type)) {
    const TestMatrix m = random_matrix(type, rows, cols, 16);
    Activations floats = with_outliers(cols, 17);
    for (size_t i = 0; i < floats.memory.size(); i += 13) floats.memory[i] *= 0x1p-125F;
    const Converted x(*GetParam(), type.partner, floats);
    const Outputs all = run_partner(m, type, x, kMaxTokens);
    for (size_t t = 0; t < static_cast<size_t>(kMaxTokens); ++t) {
      const auto* row = static_cast<const uint16_t*>(x.rows[t]);
      for (int64_t r = 0; r < rows; ++r) {
        const float* weights = m.values.data() + r * cols;
        float sum = 0;
        for (int64_t k = 0; k < cols; k += 2) {
          sum = flush(std::fma(flush(weights[k + 1]), flush(kernels::float_of_bf16(row[k + 1])), sum));
          sum = flush(std::fma(flush(weights[k]), flush(kernels::float_of_bf16(row[k])), sum));
        }
        ASSERT_EQ(kernels::bits_of(all.pointers[t][r]), kernels::bits_of(sum)) << t << " " << r;
      }
    }
    for (int64_t n_tokens = 1; n_tokens < kMaxTokens; ++n_tokens)
      ASSERT_TRUE(begins_with(all, run_partner(m, type, x, n_tokens))) << n_tokens;
  }
}

#if defined(SOLI_HAS_AVX512)
TEST(Avx512, EmulatesBf16DotsWithTheBitsOfTheInstruction) {
  const auto isas = kernels::available_isas();
  if (std::find(isas.begin(), isas.end(), "avx512") == isas.end()) GTEST_SKIP() << "no AVX-512 here";
  const KernelTable& table = *kernels::select_kernels("avx512").value();
  const WeightKernels& type = *table.find(30);
  const WeightKernels& emulated = *kernels::avx512::kTable.find(30);
  const TestMatrix m = random_matrix(type, 40, 320, 18);
  const Converted x(table, type.partner, with_outliers(320, 19));
  EXPECT_TRUE(same_bits(run_partner(m, emulated, x, 70).memory, run_partner(m, type, x, 70).memory));
}
#endif

TEST(MatmulIsas, GiveTheSameBits) {
  const auto tables = test::all_tables();
  for (const WeightKernels& type : tables.front()->weights) {
    for (const auto& [rows, cols] : shapes_of(type)) {
      const TestMatrix m = random_matrix(type, rows, cols, 9);
      const Activations x(cols, 10);
      const Outputs expected = run_f32(m, type, x, 19);
      const Outputs expected_partner = run_partner(m, type, Converted(*tables.front(), type.partner, x), 19);
      for (const KernelTable* table : tables) {
        const WeightKernels& other = *table->find(type.gguf_type);
        EXPECT_TRUE(same_bits(run_f32(m, other, x, 19).memory, expected.memory))
            << table->isa << " " << describe(type, rows, cols, 19);
        const Converted converted(*table, type.partner, x);
        EXPECT_TRUE(same_bits(run_partner(m, other, converted, 19).memory, expected_partner.memory))
            << table->isa << " " << describe(type, rows, cols, 19);
      }
    }
  }
}

}  // namespace
}  // namespace soli
