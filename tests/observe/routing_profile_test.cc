#include "observe/routing_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "observe/profile_collector.h"
#include "observe/profile_file.h"
#include "observe/profile_report.h"
#include "observe/simulated_routing.h"
#include "observe/traces.h"

namespace soli {
namespace {

using testing::HasSubstr;

/// Four experts, two per token, one layer: five tokens.
RoutingProfile five_tokens() {
  RoutingProfile profile = simulated_profile(simulated_shape(4, 1), 1);
  add_window(profile, 0, {{0, 1}, {1, 0}, {0, 2}, {0, 2}, {3, 0}});
  return profile;
}

TEST(RoutingProfile, FiguresOfFiveTokensByHand) {
  const ProfileReport report = make_profile_report(five_tokens(), nullptr, 1);
  const RoutingFigures& layer = report.domains.at(0).layers.at(0);
  EXPECT_EQ(layer.layer, 1);
  EXPECT_EQ(layer.calls, (std::vector<int64_t>{5, 2, 2, 1}));
  EXPECT_EQ(layer.n_tokens, 5);
  EXPECT_DOUBLE_EQ(layer.mean_k, 2);
  EXPECT_DOUBLE_EQ(layer.k_deviation, 0);
  EXPECT_DOUBLE_EQ(layer.gate_entropy_bits, 1.5);
  EXPECT_EQ(layer.hottest_expert, 0);
  EXPECT_DOUBLE_EQ(layer.hottest_share, 0.5);
  EXPECT_EQ(layer.coldest_expert, 3);
  // Overlaps 1, 1/3, 1, 1/3; the first expert changes 0-1, 1-0, 0-0, 0-3.
  EXPECT_DOUBLE_EQ(*layer.stability, (1 + 1.0 / 3 + 1 + 1.0 / 3) / 4);
  EXPECT_DOUBLE_EQ(*layer.top1_change_rate, 0.75);
  EXPECT_FALSE(layer.margin);
  EXPECT_FALSE(layer.information_bits);
  EXPECT_FALSE(layer.resampled.variation);  // one run
}

TEST(RoutingProfile, BatchesAreConsecutiveTokens) {
  const ProfileReport report = make_profile_report(five_tokens(), nullptr, 1);
  const std::vector<BatchFigures>& batches = report.domains.at(0).layers.at(0).batches;
  ASSERT_EQ(batches.size(), 3U);  // of 1, 2 and 4 tokens
  EXPECT_EQ(batches[1].n_batches, 2);
  EXPECT_DOUBLE_EQ(batches[1].distinct_experts, 2);  // {0, 1} and {0, 2}
  EXPECT_EQ(batches[2].n_batches, 1);
  EXPECT_DOUBLE_EQ(batches[2].distinct_experts, 3);
  // Rates 1, 2/5, 2/5, 1/5 in 2 tokens.
  EXPECT_NEAR(batches[1].expected_union, 1 + 2 * (1 - 0.36) + (1 - 0.64), 1e-12);
  EXPECT_NEAR(batches[1].sharing_gain, (1 + 2 * 0.64 + 0.36) / 2, 1e-12);
}

TEST(RoutingProfile, PositionsFallIntoBinsOfPowersOfTwo) {
  const ProfileReport report = make_profile_report(five_tokens(), nullptr, 1);
  const std::vector<PositionFigures>& positions = report.domains.at(0).total.positions;
  ASSERT_EQ(positions.size(), 4U);  // 0, 1, 2-3, 4-7
  EXPECT_EQ(positions[2].first_position, 2);
  EXPECT_EQ(positions[2].n_tokens, 2);
  EXPECT_EQ(positions[3].n_tokens, 1);
  EXPECT_DOUBLE_EQ(positions[3].mean_k, 2);
}

TEST(RoutingProfile, LiftOfPairsIsAgainstIndependence) {
  RoutingProfile profile = simulated_profile(simulated_shape(4, 1), 1);
  std::vector<std::vector<int32_t>> tokens;
  for (int i = 0; i < 20; ++i)
    tokens.push_back(i % 2 == 0 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{2, 3});
  add_window(profile, 0, tokens);
  const ProfileReport report = make_profile_report(profile, nullptr, 1);
  const std::vector<ExpertPair>& pairs = report.all.layers.at(0).pairs;
  ASSERT_EQ(pairs.size(), 6U);  // each expected in 5 tokens
  EXPECT_EQ(pairs[0].a, 0);
  EXPECT_EQ(pairs[0].b, 1);
  EXPECT_EQ(pairs[0].n_tokens, 10);
  EXPECT_DOUBLE_EQ(pairs[0].lift, 2);
  EXPECT_DOUBLE_EQ(pairs[5].lift, 0);
}

TEST(RoutingProfile, DomainsThatShareNothingHaveABitOfInformationAndSpecialists) {
  RoutingProfile profile = simulated_profile(simulated_shape(4, 2), 2);
  Rng rng(3);
  for (size_t domain = 0; domain < 2; ++domain) {
    std::vector<std::vector<int32_t>> tokens;
    for (int i = 0; i < 256; ++i) tokens.push_back(draw_experts(rng, static_cast<int32_t>(2 * domain), 2, 1));
    add_window(profile, domain, tokens, domain);
  }
  const ProfileReport report = make_profile_report(profile, nullptr, 1);
  EXPECT_DOUBLE_EQ(*report.all.total.information_bits, 1);
  EXPECT_DOUBLE_EQ(*report.domains[0].total.information_bits, 1);
  EXPECT_DOUBLE_EQ(report.all.total.resampled.information->p, 0.005);
  EXPECT_EQ(report.all.total.verdict, Verdict::kBalanced);
  EXPECT_EQ(report.domains[0].total.verdict, Verdict::kBiased);  // half of the experts have no call
  const std::vector<Specialist>& specialists = report.all.layers[1].specialists;
  ASSERT_EQ(specialists.size(), 4U);
  EXPECT_EQ(specialists[3].expert, 3);
  EXPECT_EQ(specialists[3].domain, "b");
  EXPECT_DOUBLE_EQ(specialists[3].lift, 2);
}

TEST(RoutingProfile, PositionsThatAreComputedAgainCountOnce) {
  RoutingProfile profile = simulated_profile(simulated_shape(4, 1), 1);
  RoutingWindow window(profile.shape, 1);
  const std::vector<ExpertCall> calls = {{2, 0.5F}};
  for (const int64_t position : {0, 1, 2, 0, 1, 2, 3}) window.add(0, {.position = position, .calls = calls});
  std::move(window).merge_into(profile.domains[0]);
  EXPECT_EQ(profile.domains[0].n_tokens(), 4);
  EXPECT_EQ(profile.domains[0].layers[0].overlap.n, 3);
}

/// 40 windows of 40 tokens: more runs than a sample holds.
RoutingProfile forty_windows(const std::vector<uint64_t>& numbers) {
  RoutingProfile profile = simulated_profile(simulated_shape(8, 2), 1);
  for (const uint64_t number : numbers) {
    Rng rng(number);
    std::vector<std::vector<int32_t>> tokens;
    for (int i = 0; i < 40; ++i) tokens.push_back(draw_experts(rng, 0, 8, 1 + number % 3));
    add_window(profile, 0, tokens, number);
  }
  return profile;
}

TEST(RoutingProfile, PartsMergeToTheWhole) {
  std::vector<uint64_t> all, even, odd;
  for (uint64_t n = 0; n < 80; ++n) {
    all.push_back(n);
    (n % 2 == 0 ? even : odd).push_back(n);
  }
  const RoutingProfile whole = forty_windows(all);
  RoutingProfile merged = forty_windows(odd);
  merged.domains[0].merge(forty_windows(even).domains[0]);
  EXPECT_EQ(whole.domains[0].sample.runs().size(), RoutingSample::kMaxRuns);
  // Sums of halves and thirds may differ in their last bits; counts and the sample may not.
  EXPECT_EQ(merged.domains[0].layers[1].calls, whole.domains[0].layers[1].calls);
  EXPECT_EQ(merged.domains[0].layers[1].pairs, whole.domains[0].layers[1].pairs);
  EXPECT_NEAR(merged.domains[0].layers[1].overlap.sum, whole.domains[0].layers[1].overlap.sum, 1e-9);
  for (size_t r = 0; r < RoutingSample::kMaxRuns; ++r)
    EXPECT_EQ(merged.domains[0].sample.runs()[r].key, whole.domains[0].sample.runs()[r].key);
}

TEST(ProfileFile, ReadsBackToTheSameBits) {
  RoutingProfile profile = forty_windows({1, 2, 3, 4, 5});
  profile.window = 40;
  profile.domains[0].text_hash = 0xfedcba9876543210;
  const std::string text = profile_to_text(profile);
  const Result<RoutingProfile> again = parse_profile(text);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_EQ(profile_to_text(*again), text);
  EXPECT_EQ(to_json(make_profile_report(*again, nullptr, 5), {}).dump(),
            to_json(make_profile_report(profile, nullptr, 5), {}).dump());
}

TEST(ProfileFile, SaysWhatIsWrong) {
  const std::string text = profile_to_text(five_tokens());
  const auto error_of = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    const auto result = parse_profile(changed);
    return result ? std::string("none") : result.error().message;
  };
  EXPECT_THAT(error_of("soli-profile-1", "soli-profile-9"), HasSubstr("'soli-profile-1'"));
  EXPECT_THAT(error_of("5 2 2 1", "5 2 2"), HasSubstr("domains[0].layers[0].calls has 3 numbers; 4"));
  EXPECT_THAT(error_of("5 2 2 1", "5 2 2 -1"), HasSubstr("numbers from 0"));
  EXPECT_THAT(error_of("\"n_experts\": 4", "\"n_experts\": 65536"), HasSubstr("65536 are allowed"));
  EXPECT_THAT(error_of("\"layers\": \"1\"", "\"layers\": \"\""), HasSubstr("layers"));
  EXPECT_THAT(error_of("\"k\": \"2", "\"k\": \"9"), HasSubstr("numbers from 0 to 4"));
  EXPECT_THAT(error_of("{", "["), HasSubstr(""));
}

TEST(ProfileFile, LayersHaveSeenTheSameTokens) {
  const auto error_after = [](auto change) {
    RoutingProfile profile = forty_windows({1, 2});
    change(profile.domains[0].layers[1]);
    const auto result = parse_profile(profile_to_text(profile));
    return result ? std::string("none") : result.error().message;
  };
  EXPECT_EQ(error_after([](LayerCounts&) {}), "none");
  const auto is_refused = HasSubstr("domains[0].layers[1]");
  EXPECT_THAT(error_after([](LayerCounts& layer) { ++layer.chosen.n; }), is_refused);
  EXPECT_THAT(error_after([](LayerCounts& layer) { layer.batches[2].n_batches = 0; }), is_refused);
  EXPECT_THAT(error_after([](LayerCounts& layer) { layer.positions[1].n_tokens = 0; }), is_refused);
}

TEST(ProfileDrift, IsFromTheDomainOfThatName) {
  const RoutingProfile before = five_tokens();
  RoutingProfile now = simulated_profile(before.shape, 2);
  add_window(now, 0, {{1, 2}, {2, 1}});
  add_window(now, 1, {{0, 1}});
  const ProfileReport report = make_profile_report(now, &before, 1);
  const RoutingFigures& layer = report.domains[0].layers[0];
  EXPECT_GT(*layer.drift_bits, 0.1);
  EXPECT_FALSE(report.domains[1].total.drift_bits);  // no domain b before
  EXPECT_TRUE(report.all.total.drift_bits);
  EXPECT_DOUBLE_EQ(*make_profile_report(before, &before, 1).all.total.drift_bits, 0);
  EXPECT_THAT(check_comparable(before.shape, simulated_shape(4, 2)).error().message, HasSubstr("2 layers"));
}

TEST(ProfileVerdict, FollowsItsLimits) {
  const PermutationTest fits = {.p = 0.011};
  const PermutationTest differs = {.p = 0.01};
  EXPECT_EQ(verdict_of(1.01, 0, fits, fits), Verdict::kBiased);
  EXPECT_EQ(verdict_of(0, 0.11, differs, differs), Verdict::kBiased);
  EXPECT_EQ(verdict_of(1, 0.1, fits, fits), Verdict::kRandom);
  EXPECT_EQ(verdict_of(0, 0, differs, fits), Verdict::kBalanced);
  EXPECT_EQ(verdict_of(0, 0, fits, differs), Verdict::kBalanced);
  EXPECT_EQ(verdict_of(0, 0, {}, fits), Verdict::kRandom);
  EXPECT_EQ(verdict_of(0, 0, {}, {}), Verdict::kBalanced);
}

/// Three domains whose tokens choose at random, all alike.
RoutingProfile null_profile(uint64_t seed) {
  RoutingProfile profile = simulated_profile(simulated_shape(8, 2), 3);
  for (size_t domain = 0; domain < 3; ++domain) {
    Rng rng(hash_u64(seed * 3 + domain));
    std::vector<std::vector<int32_t>> tokens;
    for (int i = 0; i < 192; ++i) tokens.push_back(draw_experts(rng, 0, 8, 2));
    add_window(profile, domain, tokens, seed);
  }
  return profile;
}

TEST(ProfileNull, IsNotCalledBiasedNorInformativeMoreOftenThanChance) {
  int n_biased = 0;
  int n_informative = 0;
  int n_random = 0;
  int n_covered = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const ProfileReport report = make_profile_report(null_profile(seed), nullptr, seed);
    const RoutingFigures& all = report.all.total;
    n_biased += all.verdict == Verdict::kBiased ? 1 : 0;
    n_informative += all.resampled.information->p <= kSignificantP ? 1 : 0;
    n_random += all.verdict == Verdict::kRandom ? 1 : 0;
    n_covered += all.resampled.never_called->low <= 0 ? 1 : 0;
  }
  EXPECT_EQ(n_biased, 0);
  EXPECT_LE(n_informative, 5);
  EXPECT_GE(n_random, 90);  // of two tests that each refuse one in a hundred
  EXPECT_EQ(n_covered, 100);
}

TEST(ProfileNull, PValuesAreUniform) {
  int n_below_half = 0;
  for (uint64_t seed = 100; seed < 140; ++seed)
    n_below_half +=
        make_profile_report(null_profile(seed), nullptr, seed).all.layers[0].resampled.information->p <= 0.5
            ? 1
            : 0;
  EXPECT_GE(n_below_half, 10);  // of 40: beyond 3 standard deviations of 20 +- 3.2
  EXPECT_LE(n_below_half, 30);
}

TEST(ProfileBootstrap, CoversTheTruthOfSkewedDraws) {
  // Expert 0 with probability 1/2, the other seven with 1/14 each.
  const double truth = std::sqrt(8 * (0.25 + 7.0 / 196) - 1);
  int n_covered = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    RoutingProfile profile = simulated_profile(simulated_shape(8, 1), 1);
    Rng rng(hash_u64(seed));
    std::vector<std::vector<int32_t>> tokens;
    for (int i = 0; i < 1024; ++i)
      tokens.push_back(rng.next_unit() < 0.5 ? std::vector<int32_t>{0} : draw_experts(rng, 1, 7, 1));
    add_window(profile, 0, tokens, seed);
    const Interval interval = *make_profile_report(profile, nullptr, seed).all.total.resampled.variation;
    n_covered += interval.low <= truth && truth <= interval.high ? 1 : 0;
  }
  EXPECT_GE(n_covered, 42);  // of 50, where 47.5 are expected
}

TEST(ProfileResampling, IsSeeded) {
  const RoutingProfile profile = null_profile(5);
  const auto text = [&](uint64_t seed) {
    ProfileReport report = make_profile_report(profile, nullptr, seed);
    report.seed = 0;
    return to_json(report, {}).dump();
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(ProfileStability, OfTokensThatRepeatIsNoPermutation) {
  RoutingProfile profile = simulated_profile(simulated_shape(8, 1), 1);
  std::vector<std::vector<int32_t>> tokens;
  for (int i = 0; i < 256; ++i) tokens.push_back({(i / 8) % 8});
  add_window(profile, 0, tokens);
  const RoutingFigures figures = make_profile_report(profile, nullptr, 1).all.total;
  EXPECT_NEAR(*figures.stability, 224.0 / 255, 0.01);
  EXPECT_DOUBLE_EQ(figures.resampled.stability->p, 0.01);
  EXPECT_NEAR(figures.resampled.stability->permuted, 1.0 / 8, 0.02);
  EXPECT_EQ(figures.verdict, Verdict::kBalanced);
}

TEST(Margin, IsBetweenTheLastChosenAndTheNextLogit) {
  const auto margin = [](std::vector<float> logits, int64_t k) { return margin_below(logits, k); };
  EXPECT_EQ(margin({1, 5, 3, 2}, 2), 1);
  EXPECT_EQ(margin({1, 5, 3, 2}, 1), 2);
  EXPECT_FALSE(margin({1, 2}, 2));
  EXPECT_FALSE(margin({1, 2}, 0));
  EXPECT_FALSE(margin({1, 2, -1e30F}, 2));
}

TEST(ProfileCollector, LeavesOutWhatBeginsATextAndOtherRequests) {
  const ModelSpec spec = test_spec(4, 2, 1);
  RoutingProfile profile = simulated_profile(ProfileShape::of(spec, 1), 1);
  RoutingWindow window(profile.shape, 1);
  ProfileCollector collector(profile.shape);
  collector.begin(7, window, 1);
  const std::vector<float> numbers = {0.4F, 0.3F, 0.2F, 0.1F};
  for (const RequestId request : {7, 8}) {
    for (const int64_t position : {0, 1, 2}) {
      BatchRow row;
      row.request = request;
      row.position = position;
      RouterView view;
      view.layer = 1;
      view.rows = {&row, 1};
      view.spec = &spec.router;
      view.logits = view.scores = {numbers.data(), 1, 4};
      Choice choice;
      choice.row_begin = {0, 2};
      choice.ids = {0, 1};
      choice.weights = {0.4F, 0.3F};
      collector.on_route(view, choice);
    }
  }
  std::move(window).merge_into(profile.domains[0]);
  EXPECT_EQ(profile.domains[0].n_tokens(), 2);
  EXPECT_NEAR(profile.domains[0].layers[0].margin.mean(), 0.1, 1e-6);
  EXPECT_NEAR(profile.domains[0].layers[0].gate_entropy_bits.mean(), 1.846439, 1e-5);
}

TEST(ProfileCsv, HasALinePerDomainAndLayer) {
  RoutingProfile profile = null_profile(1);
  profile.domains[0].name = "a,\"b\"";
  const std::string csv = to_csv(make_profile_report(profile, nullptr, 1));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 4 * 3);
  EXPECT_THAT(csv, HasSubstr("\n\"a,\"\"b\"\"\",1,192,384,2,"));
}

}  // namespace
}  // namespace soli
