#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"

namespace soli::kernels {
namespace {

std::vector<const KernelTable*> tables() {
  std::vector<const KernelTable*> all;
  for (const std::string_view isa : available_isas()) all.push_back(*select_kernels(isa));
  return all;
}

TEST(Probe, ChecksumReadsEveryWordOnEveryIsa) {
  Rng rng(1);
  std::vector<uint64_t> words(300);
  for (uint64_t& word : words) word = rng.next_u64();
  for (const KernelTable* table : tables()) {
    for (const size_t n : {0, 1, 7, 63, 64, 65, 128, 300}) {
      for (const size_t first : {size_t{0}, size_t{1}}) {  // aligned or not
        if (n == 0 || first >= n) continue;
        uint64_t expected = 0;
        for (size_t i = first; i < n; ++i) expected ^= words[i];
        const auto* bytes = reinterpret_cast<const std::byte*>(words.data() + first);
        EXPECT_EQ(table->read_checksum(bytes, static_cast<int64_t>((n - first) * 8)), expected)
            << table->isa << " " << n;
      }
    }
    EXPECT_EQ(table->read_checksum(nullptr, 0), 0U);
  }
}

TEST(Probe, MultiplyAddsAreCountedAsDone) {
  for (const KernelTable* table : tables()) {
    for (const int64_t iterations : {0, 1, 1000}) {
      std::array<float, kProbeFmaFloats> state = {};
      std::fill_n(state.begin(), 32, 1.0F);  // s = s + 1
      const int64_t operations = table->probe_fma(iterations, state.data());
      double sum = 0;
      for (size_t i = 32; i < state.size(); ++i) sum += static_cast<double>(state[i]);
      EXPECT_EQ(static_cast<double>(operations), 2 * sum) << table->isa;
      EXPECT_EQ(operations > 0, iterations > 0);
    }
  }
}

TEST(Probe, DotProductsAreCountedAsDone) {
  for (const KernelTable* table : tables()) {
    for (const int64_t iterations : {0, 1, 999}) {
      std::array<int8_t, kProbeDotBytes> operands;
      operands.fill(3);
      std::array<int32_t, kProbeDotSums> sums = {};
      const int64_t operations = table->probe_dot_i8(iterations, operands.data(), sums.data());
      int64_t sum = 0;
      for (const int32_t part : sums) sum += part;
      EXPECT_EQ(operations / 2 * 9, sum) << table->isa;
      EXPECT_EQ(operations > 0, iterations > 0);
    }
  }
}

TEST(Probe, Bf16DotProductsAreCountedAsDone) {
  for (const KernelTable* table : tables()) {
    for (const int64_t iterations : {0, 1, 999}) {
      std::array<uint16_t, kProbeBf16Operands> operands;
      operands.fill(0x3f80);  // 1
      std::array<float, kProbeDotSums> sums = {};
      const int64_t operations = table->probe_dot_bf16(iterations, operands.data(), sums.data());
      double sum = 0;
      for (const float part : sums) sum += static_cast<double>(part);
      EXPECT_EQ(static_cast<double>(operations / 2), sum) << table->isa;
      EXPECT_EQ(operations > 0, iterations > 0);
    }
  }
}

}  // namespace
}  // namespace soli::kernels
