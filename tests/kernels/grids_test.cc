#include "kernels/quant/grids.h"

#include <gtest/gtest.h>

namespace soli {
namespace {

using kernels::Grid;

/// FNV-1a over the values of all entries, a byte each.
template <size_t kLevels>
uint64_t hash_of(const Grid& grid, int n_entries, const uint8_t (&values)[kLevels]) {
  EXPECT_EQ(grid.levels, static_cast<int>(kLevels));
  uint64_t hash = 0xcbf29ce484222325;
  for (int i = 0; i < n_entries; ++i) {
    for (int j = 0; j < grid.elements; ++j) {
      hash = (hash ^ values[kernels::grid_number(grid.entries[i], j)]) * 0x100000001b3;
    }
  }
  return hash;
}

/// The hashes are those of iq2xxs_grid and so on in ggml-common.h of ggml 0.25.1, byte after byte.
TEST(Grids, AreThoseOfTheFormat) {
  constexpr uint8_t kIq2[] = {8, 25, 43};
  constexpr uint8_t kIq1[] = {255, 0, 1};
  constexpr uint8_t kIq3Xxs[] = {4, 12, 20, 28, 36, 44, 52, 62};
  constexpr uint8_t kIq3S[] = {1, 3, 5, 7, 9, 11, 13, 15};
  EXPECT_EQ(hash_of(kernels::kIq2XxsGrid, 256, kIq2), 0xbb4ee025b5ac6e8eU);
  EXPECT_EQ(hash_of(kernels::kIq2XsGrid, 512, kIq2), 0xc9b1ee61e79909bdU);
  EXPECT_EQ(hash_of(kernels::kIq2SGrid, 1024, kIq2), 0x123edd38a3b62b90U);
  EXPECT_EQ(hash_of(kernels::kIq1Grid, 2048, kIq1), 0x6703ed863501ae2eU);
  EXPECT_EQ(hash_of(kernels::kIq3XxsGrid, 256, kIq3Xxs), 0xdfa5dc83d6a155d5U);
  EXPECT_EQ(hash_of(kernels::kIq3SGrid, 512, kIq3S), 0xfa37020c25b44829U);
}

void expect_to_find_exactly(const Grid& grid, int n_entries, int n_codes) {
  int next = 0;
  for (int code = 0; code < n_codes; ++code) {
    const int found = grid.find(code);
    if (found < 0) continue;
    ASSERT_EQ(found, next++);
    for (int j = 0, digits = code; j < grid.elements; ++j, digits /= grid.levels)
      ASSERT_EQ(kernels::grid_number(grid.entries[found], j), digits % grid.levels);
  }
  EXPECT_EQ(next, n_entries);
}

TEST(Grids, FindTheirEntriesByCode) {
  expect_to_find_exactly(kernels::kIq2XxsGrid, 256, 6561);
  expect_to_find_exactly(kernels::kIq2XsGrid, 512, 6561);
  expect_to_find_exactly(kernels::kIq2SGrid, 1024, 6561);
  expect_to_find_exactly(kernels::kIq1Grid, 2048, 6561);
  expect_to_find_exactly(kernels::kIq3XxsGrid, 256, 4096);
  expect_to_find_exactly(kernels::kIq3SGrid, 512, 4096);
}

}  // namespace
}  // namespace soli
