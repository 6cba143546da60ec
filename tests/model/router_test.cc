// The router's arithmetic: the table of known results, and every shape against a plain sort.

#include "model/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "ops/runtime.h"

namespace soli {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
  bool failed = false;
};

class Router : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { runtime_ = std::move(*Runtime::create({.n_threads = 2, .isa = GetParam()})); }

  std::vector<Routed> route(RouterSpec spec, std::vector<std::vector<float>> logits,
                            std::vector<float> bias = {}, RoutingPolicy policy = {}) {
    spec.n_experts = static_cast<int64_t>(logits.empty() ? 4 : logits.front().size());
    std::vector<float> flat;
    for (const auto& row : logits) flat.insert(flat.end(), row.begin(), row.end());
    const auto n_rows = static_cast<int64_t>(logits.size());
    std::vector<float> score_values(flat.size());
    const MatrixView<const float> logit_view(flat.data(), n_rows, spec.n_experts);
    const MatrixView<float> scores(score_values.data(), n_rows, spec.n_experts);
    OpContext context{runtime_->team(), runtime_->kernels()};
    router_scores(context, spec, logit_view, scores);
    const std::vector<BatchRow> rows(logits.size(), BatchRow{.policy = &policy});
    Choice choice;
    std::vector<uint8_t> failed(logits.size(), 0);
    select_experts(context, spec, {bias, preferred_, preference_}, rows, logit_view, scores, choice, failed);
    check_choice(spec, choice, n_rows);
    std::vector<Routed> routed;
    for (int64_t row = 0; row < n_rows; ++row) {
      const auto ids = choice.ids_of(row);
      const auto weights = choice.weights_of(row);
      routed.push_back({{ids.begin(), ids.end()},
                        {weights.begin(), weights.end()},
                        failed[static_cast<size_t>(row)] != 0});
    }
    return routed;
  }

  /// The ids that one row chooses where some experts are preferred.
  std::vector<int32_t> prefer(const RouterSpec& spec, const std::vector<float>& logits,
                              const std::vector<uint8_t>& preferred, float preference) {
    preferred_ = preferred;
    preference_ = preference;
    return route(spec, {logits}).front().ids;
  }

  void expect(const RouterSpec& spec, const std::vector<float>& logits, const std::vector<int32_t>& ids,
              const std::vector<float>& weights, const std::vector<float>& bias = {},
              const RoutingPolicy& policy = {}) {
    const Routed routed = route(spec, {logits}, bias, policy).front();
    EXPECT_EQ(routed.ids, ids);
    EXPECT_THAT(routed.weights, Pointwise(FloatNear(2e-6F), weights));
  }

  std::unique_ptr<Runtime> runtime_;
  std::vector<uint8_t> preferred_;
  float preference_ = 1;
};

TEST_P(Router, APreferredExpertGoesBeforeOneThatIsNotMuchMoreProbable) {
  // exp(0.4) is 1.49.
  for (const Gating gating : {Gating::kSoftmax, Gating::kSoftmaxChosen}) {
    const RouterSpec spec = {.experts_per_token = 2, .gating = gating};
    const std::vector<float> logits = {2, 1, 0.6F, -1};
    EXPECT_THAT(prefer(spec, logits, {0, 0, 1, 0}, 1), ElementsAre(0, 1));
    EXPECT_THAT(prefer(spec, logits, {0, 0, 1, 0}, 1.45F), ElementsAre(0, 1));
    EXPECT_THAT(prefer(spec, logits, {0, 0, 1, 0}, 1.55F), ElementsAre(0, 2));
    EXPECT_THAT(prefer(spec, logits, {0, 0, 1, 1}, 16), ElementsAre(2, 0)) << "3 is e^3 times less probable";
    EXPECT_THAT(prefer(spec, logits, {1, 1, 1, 1}, 16), ElementsAre(0, 1)) << "all alike";
  }
  // Sigmoids of 2, 1 and 0.6: 0.881, 0.731, 0.646. The weights stay those of the model's rule.
  const RouterSpec sigmoid = {.experts_per_token = 2, .gating = Gating::kSigmoid};
  EXPECT_THAT(prefer(sigmoid, {2, 1, 0.6F, -1}, {0, 0, 1, 0}, 1.1F), ElementsAre(0, 1));
  EXPECT_THAT(prefer(sigmoid, {2, 1, 0.6F, -1}, {0, 0, 1, 0}, 1.2F), ElementsAre(0, 2));
  EXPECT_THAT(route(sigmoid, {{2, 1, 0.6F, -1}}).front().weights,
              Pointwise(FloatNear(2e-6F), {.880797F, .645656F}));
}

TEST_P(Router, SoftmaxIsOverAllExperts) {
  expect({.experts_per_token = 2}, {2, 1, 0, -1}, {0, 1}, {.643914F, .236883F});
}

TEST_P(Router, RenormalisedWeightsSumToOne) {
  expect({.experts_per_token = 2, .renormalise = true}, {2, 1, 0, -1}, {0, 1}, {.731059F, .268941F});
}

TEST_P(Router, SoftmaxOfTheChosenOnly) {
  expect({.experts_per_token = 2, .gating = Gating::kSoftmaxChosen}, {2, 1, 0, -1}, {0, 1},
         {.731059F, .268941F});
}

TEST_P(Router, TheSelectionBiasChoosesAndNeverWeighs) {
  RouterSpec spec = {.experts_per_token = 2, .gating = Gating::kSigmoid, .renormalise = true};
  expect(spec, {2, 1, 0, -1}, {2, 0}, {.362110F, .637890F}, {0, 0, 1, 0});
  spec.weight_scale = 2.5;
  expect(spec, {2, 1, 0, -1}, {2, 0}, {.905274F, 1.594726F}, {0, 0, 1, 0});
}

TEST_P(Router, ALargeBiasDoesNotSwallowTheScores) {
  const RouterSpec spec = {.experts_per_token = 2, .gating = Gating::kSigmoid, .renormalise = true};
  expect(spec, {-17, -18, -19, -20}, {0, 1}, {.731059F, .268941F}, {12.3F, 12.2F, 12.1F, 12.0F});
}

TEST_P(Router, SigmoidsThatUnderflowGiveWeightZero) {
  const RouterSpec spec = {.experts_per_token = 2, .gating = Gating::kSigmoid, .renormalise = true};
  expect(spec, {-200, -200, -200, -200}, {0, 1}, {0, 0});
}

TEST_P(Router, OnlyTheBestGroupsTakePart) {
  const RouterSpec spec = {
      .experts_per_token = 2, .gating = Gating::kSigmoid, .n_groups = 4, .n_groups_used = 2};
  std::vector<float> logits;
  for (const double score : {.9, .1, .6, .55, .8, .05, .5, .4}) {
    logits.push_back(static_cast<float>(std::log(score / (1 - score))));
  }
  expect(spec, logits, {0, 2}, {.9F, .6F});
}

TEST_P(Router, OneExpertRenormalisedWeighsExactlyOne) {
  Rng rng(1);
  std::vector<std::vector<float>> logits(50, std::vector<float>(7));
  for (auto& row : logits) {
    for (float& logit : row) logit = static_cast<float>(rng.next_unit() * 20 - 10);
  }
  for (const Gating gating : {Gating::kSoftmax, Gating::kSigmoid, Gating::kSoftmaxChosen}) {
    for (const Routed& row : route({.experts_per_token = 1, .gating = gating, .renormalise = true}, logits)) {
      EXPECT_THAT(row.weights, ElementsAre(1.0F));
    }
  }
}

TEST_P(Router, TheRelativeThresholdGoesByScoresWithoutTheBias) {
  // Sigmoids are .881 .731 .5 .269; the bias puts the worst one first, and it stays only as the one that
  // k_min keeps.
  const RouterSpec spec = {.experts_per_token = 4, .gating = Gating::kSigmoid};
  const std::vector<float> bias = {0, 0, 0, 5};
  const auto chosen = [&](double threshold) {
    return route(spec, {{2, 1, 0, -1}}, bias, {.relative_threshold = threshold}).front().ids;
  };
  EXPECT_THAT(chosen(0.2), ElementsAre(3, 0, 1, 2));
  EXPECT_THAT(chosen(0.7), ElementsAre(3, 0, 1));
  EXPECT_THAT(chosen(0.99), ElementsAre(3, 0));
}

TEST_P(Router, ABiasMayPutASmallLogitFirst) {
  const RouterSpec spec = {.experts_per_token = 2, .gating = Gating::kSoftmaxChosen};
  const auto routed = route(spec, {{-500, 500, 0, 0}}, {2000, 0, 0, 0}).front();
  EXPECT_THAT(routed.ids, ElementsAre(0, 1));
  EXPECT_THAT(routed.weights, ElementsAre(0, 1));
}

TEST_P(Router, APolicyCannotReachBeyondTheGroups) {
  const RouterSpec spec = {
      .experts_per_token = 2, .gating = Gating::kSigmoid, .n_groups = 4, .n_groups_used = 1};
  const auto routed = route(spec, {{1, 2, 3, 4, 5, 6, 7, 8}}, {}, {.experts_per_token = 5}).front();
  EXPECT_THAT(routed.ids, ElementsAre(7, 6));
}

TEST_P(Router, TheRelativeThresholdKeepsWhatIsCloseToTheBest) {
  const RouterSpec spec = {.experts_per_token = 4};
  const std::vector<float> logits = {std::log(.5F), std::log(.2F), std::log(.1F), std::log(.05F),
                                     std::log(.15F)};
  const auto ids = [&](double threshold) {
    return route(spec, {logits}, {}, {.relative_threshold = threshold}).front().ids;
  };
  EXPECT_THAT(ids(.3), ElementsAre(0, 1)) << ".15 is not above .3 * .5";
  EXPECT_THAT(ids(0), ElementsAre(0, 1, 4, 2)) << "0 is plain top-k";
  EXPECT_THAT(ids(1), ElementsAre(0)) << "1 is top-k_min";
}

TEST_P(Router, APolicyMayAskForFewerOrMoreExperts) {
  const RouterSpec spec = {.experts_per_token = 2};
  for (const int64_t k : {1, 2, 3, 4}) {
    EXPECT_EQ(route(spec, {{1, 2, 3, 4}}, {}, {.experts_per_token = k}).front().ids.size(),
              static_cast<size_t>(k));
  }
}

TEST_P(Router, TiesGoToTheLowerId) {
  expect({.experts_per_token = 3}, {0, 1, 1, 0, 1, 1}, {1, 2, 4},
         std::vector<float>(3, 1.0F / (4 + 2 / std::exp(1.0F))));
}

TEST_P(Router, EqualToAPlainSortForAnyNumberOfExperts) {
  Rng rng(2);
  for (const size_t n_experts : {1, 2, 3, 5, 60, 160, 384, 896}) {
    for (const size_t k : {size_t{1}, size_t{2}, n_experts / 2, n_experts}) {
      if (k < 1 || k > n_experts) continue;
      std::vector<std::vector<float>> logits(k == 2 ? 1000 : 3, std::vector<float>(n_experts));
      for (auto& row : logits) {
        for (float& logit : row) logit = static_cast<float>(rng.next_below(50)) / 8;  // many ties
      }
      const auto routed = route({.experts_per_token = static_cast<int64_t>(k)}, logits);
      for (size_t row = 0; row < logits.size(); ++row) {
        std::vector<int32_t> order(n_experts);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
          return logits[row][static_cast<size_t>(a)] > logits[row][static_cast<size_t>(b)];
        });
        order.resize(k);
        ASSERT_EQ(routed[row].ids, order) << n_experts << " experts, k " << k;
      }
    }
  }
}

TEST_P(Router, ARowThatIsNotFiniteFailsAlone) {
  const RouterSpec spec = {.experts_per_token = 2};
  const auto alone = route(spec, {{1, 2, 3, 4}}).front();
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    const auto routed = route(spec, {{1, 2, 3, 4}, {1, bad, 3, 4}, {1, 2, 3, 4}});
    EXPECT_TRUE(routed[1].failed);
    EXPECT_TRUE(routed[1].ids.empty());
    for (const size_t row : {0, 2}) {
      EXPECT_FALSE(routed[row].failed);
      EXPECT_EQ(routed[row].weights, alone.weights);
    }
  }
}

TEST_P(Router, ZeroRowsAreNoSpecialCase) { EXPECT_TRUE(route({.experts_per_token = 2}, {}).empty()); }

std::vector<std::string> isas() {
  const auto available = kernels::available_isas();
  return {available.begin(), available.end()};
}

INSTANTIATE_TEST_SUITE_P(Isas, Router, testing::ValuesIn(isas()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace soli
