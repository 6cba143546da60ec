#include "observe/change_points.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "observe/expert_shares.h"

namespace soli {
namespace {

constexpr int64_t kTextLayers = 3;
constexpr int64_t kTextExperts = 8;

/// Each token chooses two experts of `n_kinds` from `first` on, in each layer.
void append_part(RoutedText& text, int64_t n_tokens, int64_t first, uint64_t n_kinds, Rng& rng) {
  text.n_layers = kTextLayers;
  text.n_experts = kTextExperts;
  if (text.begin.empty()) text.begin.push_back(0);
  for (int64_t i = 0; i < n_tokens * kTextLayers; ++i) {
    const uint64_t a = rng.next_below(n_kinds);
    const uint64_t b = (a + 1 + rng.next_below(n_kinds - 1)) % n_kinds;
    text.experts.push_back(static_cast<int32_t>(first) + static_cast<int32_t>(a));
    text.experts.push_back(static_cast<int32_t>(first) + static_cast<int32_t>(b));
    text.begin.push_back(std::ssize(text.experts));
  }
}

std::vector<int64_t> places_of(const std::vector<ChangePoint>& changes) {
  std::vector<int64_t> places;
  for (const ChangePoint& change : changes) places.push_back(change.at);
  return places;
}

TEST(ChangePoints, AreWhereTheExpertsChange) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    RoutedText text;
    append_part(text, 40, 0, 4, rng);
    append_part(text, 25, 4, 4, rng);
    append_part(text, 60, 2, 4, rng);
    const std::vector<ChangePoint> changes = find_change_points(text, seed);
    EXPECT_EQ(places_of(changes), (std::vector<int64_t>{40, 65})) << seed;
    for (const ChangePoint& change : changes) {
      EXPECT_LE(change.p, kChangeSignificance);
      EXPECT_GT(change.divergence_bits, 2 * change.permuted_bits);
    }
  }
}

TEST(ChangePoints, AreNotWhereNothingChanges) {
  int64_t n_found = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed + 1000);
    RoutedText text;
    append_part(text, 120, 0, kTextExperts, rng);
    n_found += std::ssize(find_change_points(text, seed));
  }
  EXPECT_LE(n_found, 4);  // 1 is to be expected
}

TEST(ChangePoints, DivergenceIsThatOfJensenAndShannonForHalves) {
  Rng rng(5);
  RoutedText text;
  append_part(text, 30, 0, 4, rng);
  append_part(text, 30, 4, 4, rng);
  const std::vector<ChangePoint> changes = find_change_points(text, 0);
  ASSERT_EQ(places_of(changes), std::vector<int64_t>{30});
  double bits = 0;
  for (int64_t layer = 0; layer < kTextLayers; ++layer) {
    std::vector<int64_t> before(kTextExperts, 0);
    std::vector<int64_t> after(kTextExperts, 0);
    for (int64_t token = 0; token < text.n_tokens(); ++token) {
      for (const int32_t expert : text.experts_of(token, layer))
        ++(token < 30 ? before : after)[static_cast<size_t>(expert)];
    }
    bits += jensen_shannon_bits(before, after) / static_cast<double>(kTextLayers);
  }
  EXPECT_NEAR(changes.front().divergence_bits, bits, 1e-9);
  EXPECT_NEAR(bits, 1, 1e-9);  // no expert is called on both sides
}

TEST(ChangePoints, DependOnTheSeedOnlyByTheirChance) {
  Rng rng(6);
  RoutedText text;
  append_part(text, 50, 0, 4, rng);
  append_part(text, 50, 3, 4, rng);
  const auto first = find_change_points(text, 1);
  const auto again = find_change_points(text, 1);
  const auto other = find_change_points(text, 2);
  ASSERT_EQ(places_of(first), std::vector<int64_t>{50});
  EXPECT_EQ(first.front().permuted_bits, again.front().permuted_bits);
  EXPECT_EQ(places_of(first), places_of(other));
  EXPECT_NE(first.front().permuted_bits, other.front().permuted_bits);
}

TEST(ChangePoints, NeedTokensOnBothSides) {
  EXPECT_TRUE(find_change_points({}, 0).empty());
  Rng rng(7);
  RoutedText text;
  append_part(text, kMinChangeTokens, 0, 4, rng);
  append_part(text, kMinChangeTokens - 1, 4, 4, rng);
  EXPECT_TRUE(find_change_points(text, 0).empty());
  append_part(text, 1, 4, 4, rng);
  EXPECT_EQ(places_of(find_change_points(text, 0)), std::vector<int64_t>{kMinChangeTokens});
}

TEST(ChangePoints, AreFoundWhereTokensChooseNoneOrMore) {
  RoutedText text;
  text.n_layers = 1;
  text.n_experts = 3;
  text.begin = {0};
  for (int64_t token = 0; token < 40; ++token) {
    if (token % 3 != 0) text.experts.push_back(token < 20 ? 0 : 1);
    if (token % 2 == 0) text.experts.push_back(2);
    text.begin.push_back(std::ssize(text.experts));
  }
  EXPECT_EQ(places_of(find_change_points(text, 0)), std::vector<int64_t>{20});
}

}  // namespace
}  // namespace soli
