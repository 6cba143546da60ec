#include "ops/attention_inputs.h"

#include <utility>

#include "kernels/support.h"

namespace soli {
namespace {

using test::random_floats;

class AttentionInputs : public testing::TestWithParam<const kernels::KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Isa, AttentionInputs, testing::ValuesIn(test::all_tables()), test::isa_name);

constexpr int64_t kHeads = 6;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kHeadDim = 20;
constexpr int64_t kValueDim = 12;
constexpr int64_t kRotated = 16;
constexpr int64_t kPositions = 70;  // of the first of two sequences; the second has half as many

/// Runs of norm.size() elements normalised, and heads rotated, for one row.
std::vector<float> transformed(const kernels::KernelTable& kernels, std::vector<float> row,
                               const std::vector<float>& norm, const QueryKeyTransform& transform,
                               int64_t r) {
  if (transform.norm_after_rope) rotate_heads(transform.rope, transform.rotations.row(r), row, row.data());
  for (size_t i = 0; !norm.empty() && i < row.size(); i += norm.size()) {
    kernels.rms_norm(row.data() + i, norm.data(), static_cast<int64_t>(norm.size()), 1e-5F, row.data() + i);
  }
  if (!transform.norm_after_rope) rotate_heads(transform.rope, transform.rotations.row(r), row, row.data());
  return row;
}

std::vector<float> row_of(const std::vector<float>& matrix, int64_t row, int64_t cols) {
  return {matrix.begin() + row * cols, matrix.begin() + (row + 1) * cols};
}

void expect_transformed_and_stored(const kernels::KernelTable& kernels, int n_threads, int64_t q_norm_size,
                                   int64_t k_norm_size, bool norm_after_rope) {
  ThreadTeam team(n_threads);
  OpContext context{team, kernels};
  const AttentionParams params = {
      .shape = {KvType::kF32, kKvHeads, kHeadDim, kValueDim}, .layer_offset = 64, .n_heads = kHeads};
  const Rope rope = {.head_dim = kHeadDim, .inverse_frequencies = Rope::frequencies(10000, kRotated, {}, {})};
  std::vector<std::vector<std::byte>> memory(
      3, std::vector<std::byte>(static_cast<size_t>(params.layer_offset + params.shape.layer_page_bytes())));
  std::vector<std::byte*> pages;
  for (auto& page : memory) pages.push_back(page.data());
  std::vector<AttentionRow> rows;
  std::vector<int64_t> positions;
  for (int64_t p = 0; p < kPositions + kPositions / 2; ++p) {
    const bool first = p < kPositions;
    positions.push_back(first ? p : p - kPositions);
    rows.push_back({positions.back(), std::span(pages).subspan(first ? 0 : 2, first ? 2 : 1)});
  }
  const auto n = static_cast<int64_t>(rows.size());
  const int64_t q_cols = kHeads * kHeadDim;
  const int64_t k_cols = kKvHeads * kHeadDim;
  const int64_t v_cols = kKvHeads * kValueDim;
  const auto q = random_floats(1, n * q_cols);
  const auto k = random_floats(2, n * k_cols);
  const auto v = random_floats(3, n * v_cols);
  const auto q_norm = random_floats(4, q_norm_size);
  const auto k_norm = random_floats(5, k_norm_size);
  std::vector<float> rotations(static_cast<size_t>(n * kRotated));
  fill_rotations(context, rope, positions, {rotations.data(), n, kRotated});
  auto q_out = q;
  auto k_out = k;
  const QueryKeyTransform transform = {.q_norm = q_norm,
                                       .k_norm = k_norm,
                                       .epsilon = 1e-5F,
                                       .norm_after_rope = norm_after_rope,
                                       .rope = rope,
                                       .rotations = {rotations.data(), n, kRotated}};
  transform_and_store(context, params, transform, rows, {q_out.data(), n, q_cols}, {k_out.data(), n, k_cols},
                      {v.data(), n, v_cols});
  for (int64_t r = 0; r < n; ++r) {
    EXPECT_EQ(row_of(q_out, r, q_cols), transformed(kernels, row_of(q, r, q_cols), q_norm, transform, r));
    const auto key = transformed(kernels, row_of(k, r, k_cols), k_norm, transform, r);
    EXPECT_EQ(row_of(k_out, r, k_cols), key);
    const AttentionRow& row = rows[static_cast<size_t>(r)];
    const int64_t slot = row.position % kKvPagePositions;
    const auto* page = reinterpret_cast<const float*>(
        row.pages[static_cast<size_t>(row.position / kKvPagePositions)] + params.layer_offset);
    for (int64_t head = 0; head < kKvHeads; ++head) {
      const float* keys = page + head * kKvPagePositions * kHeadDim;
      const float* values =
          page + kKvHeads * kKvPagePositions * kHeadDim + (head * kKvPagePositions + slot) * kValueDim;
      for (int64_t d = 0; d < kHeadDim; ++d) {
        ASSERT_EQ(keys[(slot / 16 * kHeadDim + d) * 16 + slot % 16],
                  key[static_cast<size_t>(head * kHeadDim + d)])
            << "row " << r << " head " << head << " " << d;
      }
      for (int64_t d = 0; d < kValueDim; ++d)
        ASSERT_EQ(values[d], v[static_cast<size_t>(r * v_cols + head * kValueDim + d)]);
    }
  }
}

TEST_P(AttentionInputs, AreNormalisedRotatedAndStored) {
  for (const int n_threads : {1, 3}) {
    for (const bool norm_after_rope : {false, true}) {
      expect_transformed_and_stored(*GetParam(), n_threads, 0, 0, norm_after_rope);
      expect_transformed_and_stored(*GetParam(), n_threads, kHeadDim, kHeadDim, norm_after_rope);
      expect_transformed_and_stored(*GetParam(), n_threads, kHeads * kHeadDim, kKvHeads * kHeadDim,
                                    norm_after_rope);
    }
  }
}

TEST_P(AttentionInputs, NoRowsIsNoWork) {
  ThreadTeam team(2);
  OpContext context{team, *GetParam()};
  const AttentionParams params = {.shape = {KvType::kF32, 1, 8, 8}, .n_heads = 1};
  const Rope rope = {.head_dim = 8, .inverse_frequencies = {}};
  float nothing = 3;
  transform_and_store(context, params,
                      {.q_norm = {}, .k_norm = {}, .rope = rope, .rotations = {&nothing, 0, 0}}, {},
                      {&nothing, 0, 8}, {&nothing, 0, 8}, {&nothing, 0, 8});
  EXPECT_EQ(nothing, 3);
}

}  // namespace
}  // namespace soli
