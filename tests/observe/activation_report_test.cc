#include "observe/activation_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "observe/traces.h"

namespace soli {
namespace {

using testing::HasSubstr;
using testing::Not;

/// The report of `n_tokens` tokens that choose by `route(position, layer)`, in a model of `n_moe_layers`.
ActivationReport report_of(int64_t n_experts, int64_t n_moe_layers, int64_t n_tokens, int64_t n_prompt,
                           const std::function<TestRoute(int64_t, int64_t)>& route) {
  const ModelSpec spec = test_spec(n_experts, 1, n_moe_layers);
  ActivationRecorder recorder;
  for (int64_t position = 0; position < n_tokens; ++position) {
    for (int64_t layer = 1; layer < spec.n_layers; ++layer) {
      record(recorder, spec.router, 1, position, layer, route(position, layer));
    }
  }
  return make_report(recorder.choices_of(1), spec, test_counts(spec), n_prompt);
}

TEST(ActivationReport, EveryExpertInTurnIsUniform) {
  const ActivationReport report = report_of(4, 1, 8, 8, [](int64_t position, int64_t) {
    return TestRoute{{static_cast<int32_t>(position % 4)}, {0.7F}};
  });
  ASSERT_EQ(report.layers.size(), 1U);
  const LayerActivation& layer = report.layers[0];
  EXPECT_EQ(layer.layer, 1);
  EXPECT_EQ(layer.shares.n_calls, 8);
  EXPECT_EQ(layer.shares.hottest_expert, 0);
  EXPECT_EQ(layer.shares.coldest_expert, 0);
  EXPECT_DOUBLE_EQ(layer.shares.hottest_share, 0.25);
  EXPECT_DOUBLE_EQ(layer.shares.coldest_share, 0.25);
  EXPECT_DOUBLE_EQ(layer.shares.entropy_bits, 2);
  EXPECT_DOUBLE_EQ(layer.shares.entropy_normalised, 1);
  EXPECT_DOUBLE_EQ(layer.shares.variation, 0);
  EXPECT_DOUBLE_EQ(layer.shares.max_over_mean, 1);
  EXPECT_DOUBLE_EQ(layer.shares.never_called, 0);
  EXPECT_EQ(layer.stability, 0.0);
  EXPECT_EQ(layer.top1_change_rate, 1.0);
  EXPECT_EQ(layer.shares.distinct, 4);
  const double expected = 4 * (1 - std::pow(0.75, 8));
  EXPECT_DOUBLE_EQ(layer.expected_union, expected);
  EXPECT_DOUBLE_EQ(report.sharing_gain, expected / 4);
  EXPECT_DOUBLE_EQ(report.union_ratio, 1);
  EXPECT_DOUBLE_EQ(report.all.effective_experts.mean, 1);
  EXPECT_NEAR(report.all.gate_entropy_bits.mean, 2, 1e-6);
}

TEST(ActivationReport, OneExpertForAllIsAsBiasedAsCanBe) {
  const ActivationReport report = report_of(4, 2, 5, 2, [](int64_t, int64_t) { return TestRoute{{2}, {1}}; });
  ASSERT_EQ(report.layers.size(), 2U);
  for (const LayerActivation& layer : report.layers) {
    EXPECT_EQ(layer.shares.hottest_expert, 2);
    EXPECT_EQ(layer.shares.hottest_share, 1);
    EXPECT_EQ(layer.shares.coldest_expert, 0);
    EXPECT_EQ(layer.shares.coldest_share, 0);
    EXPECT_EQ(layer.shares.entropy_bits, 0);
    EXPECT_FALSE(std::signbit(layer.shares.entropy_bits));
    EXPECT_DOUBLE_EQ(layer.shares.variation, std::sqrt(3));  // of shares 1, 0, 0, 0
    EXPECT_DOUBLE_EQ(layer.shares.max_over_mean, 4);
    EXPECT_DOUBLE_EQ(layer.shares.never_called, 0.75);
    EXPECT_EQ(layer.stability, 1.0);
    EXPECT_EQ(layer.top1_change_rate, 0.0);
    EXPECT_EQ(layer.expected_union, 1);
    EXPECT_EQ(layer.sharing_gain, 1);
  }
  EXPECT_EQ(report.distinct_pairs, 2);
  EXPECT_DOUBLE_EQ(report.union_ratio, 0.25);
  EXPECT_EQ(report.stability, 1.0);
  EXPECT_EQ(report.union_bytes, 2000 + 2 * 12);
}

TEST(ActivationReport, ATokenWithoutExpertsInALayerCounts) {
  const ActivationReport report = report_of(4, 2, 4, 4, [](int64_t position, int64_t layer) {
    return position == 1 && layer == 2 ? TestRoute{} : TestRoute{{0}, {1}};
  });
  EXPECT_EQ(report.n_incomplete, 0);
  ASSERT_EQ(report.tokens.size(), 4U);
  EXPECT_EQ(report.tokens[0].active_parameters, 1020);
  EXPECT_EQ(report.tokens[1].active_parameters, 1010);
  EXPECT_DOUBLE_EQ(report.all.active_parameters.mean, 1017.5);
  EXPECT_DOUBLE_EQ(report.tokens[1].effective_experts, 0.5);
  EXPECT_EQ(report.layers[1].shares.n_calls, 3);
}

TEST(ActivationReport, CountsParametersBytesAndFlopsOfTheExpertsThatWereChosen) {
  const ActivationReport report = report_of(4, 2, 3, 1, [](int64_t position, int64_t layer) {
    return position == 0 ? TestRoute{{0, 3}, {0.5F, 0.5F}} : TestRoute{{static_cast<int32_t>(layer)}, {0.1F}};
  });
  ASSERT_EQ(report.tokens.size(), 3U);
  // Experts of 10 + e parameters; nominal 1000 + 2 * (10 + 11 + 12 + 13).
  EXPECT_EQ(report.nominal_parameters, 1092);
  EXPECT_EQ(report.tokens[0].active_parameters, 1000 + 2 * (10 + 13));
  EXPECT_EQ(report.tokens[1].active_parameters, 1000 + 11 + 12);
  EXPECT_EQ(report.tokens[2].touched_bytes, 2000 + 11 + 12);
  EXPECT_DOUBLE_EQ(report.tokens[1].activation_ratio, 1023.0 / 1092);
  // Attention: 3 layers, 2 heads, 4 + 3 multiplications and as many additions per key.
  EXPECT_EQ(report.tokens[0].flops, 2 * 1046 + 3 * 2 * 1 * 2 * 7);
  EXPECT_EQ(report.tokens[2].flops, 2 * 1023 + 3 * 2 * 3 * 2 * 7);
  EXPECT_EQ(report.all.active_parameters.min, 1023);
  EXPECT_EQ(report.all.active_parameters.max, 1046);
  EXPECT_DOUBLE_EQ(report.all.active_parameters.mean, (1046 + 2 * 1023) / 3.0);
  EXPECT_NEAR(report.all.active_parameters.deviation, 23 * std::sqrt(2) / 3, 1e-9);
  EXPECT_EQ(report.prompt.n_tokens, 1);
  EXPECT_EQ(report.generated.n_tokens, 2);
  EXPECT_EQ(report.prompt.active_parameters.mean, 1046);
  EXPECT_EQ(report.generated.active_parameters.mean, 1023);
  EXPECT_EQ(report.generated.active_parameters.deviation, 0);
}

TEST(ActivationReport, EffectiveExpertsComeFromNormalisedWeights) {
  const ActivationReport report = report_of(8, 2, 1, 1, [](int64_t, int64_t layer) {
    return layer == 1 ? TestRoute{{0, 1, 2, 3}, {0.1F, 0.1F, 0.1F, 0.1F}} : TestRoute{{5, 6}, {3, 1}};
  });
  const double two = std::exp(-0.75 * std::log(0.75) - 0.25 * std::log(0.25));
  EXPECT_NEAR(report.tokens[0].effective_experts, (4 + two) / 2, 1e-9);
  EXPECT_FALSE(report.stability.has_value());  // of one token
  EXPECT_FALSE(report.layers[0].top1_change_rate.has_value());
}

TEST(ActivationReport, StabilityIsTheMeanJaccardOverlap) {
  const std::vector<TestRoute> routes = {{{0, 1}, {0.6F, 0.4F}},
                                         {{1, 2}, {0.4F, 0.6F}},
                                         {{2, 1}, {0.5F, 0.5F}},
                                         {{3, 0, 2}, {0.1F, 0.2F, 0.7F}}};
  const ActivationReport report =
      report_of(4, 1, 4, 4, [&](int64_t position, int64_t) { return routes[static_cast<size_t>(position)]; });
  EXPECT_DOUBLE_EQ(*report.stability, (1.0 / 3 + 1 + 1.0 / 4) / 3);
  EXPECT_DOUBLE_EQ(*report.top1_change_rate, 1.0 / 3);  // 0, then 2 by weight, 2 on a tie by order, 2
}

TEST(ActivationReport, ExpectedUnionFollowsTheCallRates) {
  // Expert 0 always, experts 1 and 2 half of the time, expert 3 never: k is 1.5 on average.
  const ActivationReport report = report_of(4, 1, 4, 4, [](int64_t position, int64_t) {
    return position % 2 == 0 ? TestRoute{{0, 1, 2}, {1, 1, 1}} : TestRoute{{0}, {1}};
  });
  EXPECT_DOUBLE_EQ(report.expected_union, 1 + 2 * (1 - std::pow(0.5, 4)));
  EXPECT_DOUBLE_EQ(report.sharing_gain, report.expected_union / 3);
}

TEST(ActivationReport, BinsArePositionsOfEqualWidth) {
  const ActivationReport report = report_of(4, 1, 20, 5, [](int64_t position, int64_t) {
    return TestRoute{{position < 10 ? 0 : 3}, {1}};
  });
  ASSERT_EQ(report.by_position.size(), 8U);
  int64_t n_tokens = 0;
  for (const PositionBin& bin : report.by_position) {
    EXPECT_EQ(bin.first_position, n_tokens);
    EXPECT_EQ(bin.summary.n_tokens, bin.end_position - bin.first_position);
    EXPECT_TRUE(bin.summary.n_tokens == 2 || bin.summary.n_tokens == 3);
    n_tokens += bin.summary.n_tokens;
  }
  EXPECT_EQ(n_tokens, 20);
  EXPECT_EQ(report.by_position.front().summary.active_parameters.mean, 1010);
  EXPECT_EQ(report.by_position.back().summary.active_parameters.mean, 1013);
  EXPECT_EQ(report_of(4, 1, 3, 3,
                      [](int64_t, int64_t) {
                        return TestRoute{{0}, {1}};
                      })
                .by_position.size(),
            3U);
}

TEST(ActivationReport, LeavesOutTokensWithoutAllTheirLayers) {
  const ModelSpec spec = test_spec(4, 1, 2);
  ActivationRecorder recorder(5);
  for (int64_t position = 0; position < 4; ++position) {
    for (const int64_t layer : {1, 2}) record(recorder, spec.router, 1, position, layer, {{1}, {1}});
  }
  const ActivationReport report = make_report(recorder.choices_of(1), spec, test_counts(spec), 3);
  EXPECT_EQ(report.n_dropped, 3);
  EXPECT_EQ(report.n_incomplete, 1);  // position 1; 0 is gone altogether
  ASSERT_EQ(report.tokens.size(), 2U);
  EXPECT_EQ(report.tokens[0].position, 2);
  EXPECT_EQ(report.by_position.front().first_position, 2);
  EXPECT_EQ(report.layers[0].shares.n_calls, 2);
  const std::string text = render_text(report);
  EXPECT_THAT(text, HasSubstr("1 tokens are left out"));
  EXPECT_THAT(text, HasSubstr("3 routes were dropped"));
}

TEST(ActivationReport, OfADenseModelIsWhatIsAlwaysActive) {
  ModelSpec spec = test_spec(0, 0, 0);
  const ActivationReport report = make_report({}, spec, test_counts(spec), 3, 7);
  EXPECT_FALSE(report.is_moe());
  EXPECT_EQ(report.prompt.n_tokens, 3);
  EXPECT_EQ(report.generated.n_tokens, 4);
  EXPECT_EQ(report.all.activation_ratio.mean, 1);
  EXPECT_EQ(report.all.active_parameters.max, 1000);
  EXPECT_EQ(report.tokens[6].flops, 2000 + 2 * 7 * 2 * 7);
  EXPECT_EQ(report.union_bytes, 2000);
  EXPECT_TRUE(report.layers.empty());
  const std::string text = render_text(report);
  EXPECT_THAT(text, HasSubstr("activation ratio"));
  EXPECT_THAT(text, Not(HasSubstr("effective experts")));
  EXPECT_THAT(text, Not(HasSubstr("hottest")));
}

TEST(ActivationReport, OfNoTokenSaysSo) {
  const ModelSpec spec = test_spec(4, 2, 2);
  const ActivationReport report = make_report({}, spec, test_counts(spec), 3);
  EXPECT_EQ(report.all.n_tokens, 0);
  EXPECT_THAT(render_text(report), HasSubstr("no token was recorded"));
  EXPECT_TRUE(to_json(report)["tokens"].empty());
}

/// A large model with the widest numbers.
ActivationReport wide_report() {
  ModelSpec spec = test_spec(1024, 2, 3);
  spec.name = "A model with a name\nof two lines and \xff";
  ParameterCounts counts = test_counts(spec);
  counts.always_active = {123456789012, 234567890123};
  counts.nominal_total = {1234567890123, 2345678901234};
  ActivationRecorder recorder;
  for (int64_t position = 0; position < 1234567; position += 6000) {
    for (int64_t layer = 1; layer < spec.n_layers; ++layer) {
      record(recorder, spec.router, 1, position, layer, {{1023, 1022}, {1, 1}});
    }
  }
  return make_report(recorder.choices_of(1), spec, counts, 600000);
}

TEST(ActivationReportText, FitsATerminalOf100Columns) {
  std::istringstream lines(render_text(wide_report()));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
}

TEST(ActivationReportText, HasColourOnlyWhenAsked) {
  const ActivationReport report = wide_report();
  const std::string text = render_text(report);
  const std::string coloured = render_text(report, true);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(coloured, HasSubstr("\x1b[1m"));
  EXPECT_THAT(coloured, HasSubstr("\x1b[33m    1"));  // a biased layer
  std::string without;
  for (size_t i = 0; i < coloured.size(); ++i) {
    if (coloured[i] == '\x1b')
      i = coloured.find('m', i);
    else
      without += coloured[i];
  }
  EXPECT_EQ(without, text);
}

TEST(ActivationReportJson, NamesEveryFigure) {
  const nlohmann::ordered_json json = to_json(wide_report());
  EXPECT_EQ(json["model"], "A model with a name\\nof two lines and \\xFF");
  EXPECT_EQ(json["prompt"]["n_tokens"], 100);
  EXPECT_EQ(json["layers"].size(), 3U);
  EXPECT_EQ(json["layers"][0]["hottest_expert"], 1022);
  EXPECT_TRUE(json["stability"].is_null());  // no two positions follow each other
  EXPECT_EQ(json["by_position"][0]["active_parameters"]["spread"], 0);
  EXPECT_NO_THROW(json.dump());
}

}  // namespace
}  // namespace soli
