#include "observe/routing_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "io/file.h"
#include "observe/traces.h"
#include "support/recount.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using nlohmann::json;

constexpr int64_t kPrompt = 11;

/// A request with a skew towards low ids, a ragged number of experts, and weights with all their digits.
void record_random(ActivationRecorder& recorder, const ModelSpec& spec, int64_t n_tokens) {
  Rng rng(3);
  for (int64_t position = 0; position < n_tokens; ++position) {
    for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
      if (!spec.is_moe_layer(layer)) continue;
      TestRoute route;
      const uint64_t k = 1 + rng.next_below(static_cast<uint64_t>(spec.router.experts_per_token));
      while (route.ids.size() < k) {
        const double u = rng.next_unit();
        const auto e = static_cast<int32_t>(u * u * static_cast<double>(spec.router.n_experts));
        if (std::find(route.ids.begin(), route.ids.end(), e) != route.ids.end()) continue;
        route.ids.push_back(e);
        route.weights.push_back(static_cast<float>(rng.next_unit()));
      }
      record(recorder, spec.router, 5, position, layer, route);
    }
  }
}

Status write(const std::string& path, const ModelSpec& spec, const RequestChoices& choices) {
  const ParameterCounts counts = test_counts(spec);
  const ActivationReport report = make_report(choices, spec, counts, kPrompt, 40);
  return write_routing_json(path, choices, spec, counts, kPrompt, report);
}

json parse(const std::string& path) { return json::parse(read_file(path, int64_t{1} << 24).value()); }

TEST(RoutingJson, IsRecountedByAnIndependentScript) {
  const TemporaryFolder folder;
  const ModelSpec spec = test_spec(16, 4, 3);
  ActivationRecorder recorder;
  record_random(recorder, spec, 50);
  ASSERT_TRUE(write(folder / "all.json", spec, recorder.choices_of(5)));
  EXPECT_EQ(recount(folder / "all.json"), 0);
}

TEST(RoutingJson, IsRecountedWhenTheRecorderDroppedSome) {
  const TemporaryFolder folder;
  const ModelSpec spec = test_spec(16, 4, 3);
  ActivationRecorder recorder(200);
  record_random(recorder, spec, 50);
  const RequestChoices choices = recorder.choices_of(5);
  ASSERT_GT(choices.n_dropped, 0);
  ASSERT_TRUE(write(folder / "some.json", spec, choices));
  EXPECT_EQ(recount(folder / "some.json"), 0);
}

TEST(RoutingJson, IsRecountedForADenseModelAndForNoToken) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write(folder / "dense.json", test_spec(0, 0, 0), {}));
  EXPECT_EQ(recount(folder / "dense.json"), 0);
  EXPECT_EQ(parse(folder / "dense.json")["tokens"].size(), 40U);
  ASSERT_TRUE(write(folder / "none.json", test_spec(4, 2, 2), {}));
  EXPECT_EQ(recount(folder / "none.json"), 0);
}

TEST(RoutingJson, ARecountFindsAFigureThatIsWrong) {
  const TemporaryFolder folder;
  const ModelSpec spec = test_spec(16, 4, 3);
  ActivationRecorder recorder;
  record_random(recorder, spec, 20);
  ASSERT_TRUE(write(folder / "right.json", spec, recorder.choices_of(5)));
  for (const char* path :
       {"/report/sharing_gain", "/report/layers/1/stability", "/report/tokens/7/flops",
        "/report/by_position/2/effective_experts/mean", "/tokens/3/layers/0/gate_entropy"}) {
    json file = parse(folder / "right.json");
    json& figure = file[json::json_pointer(path)];
    figure = figure.get<double>() * 1.00001;
    const std::string text = file.dump();
    ASSERT_TRUE(write_file(folder / "wrong.json", std::as_bytes(std::span(text))));
    EXPECT_EQ(recount(folder / "wrong.json"), 1) << path;
  }
  EXPECT_EQ(recount(folder / "missing.json"), 2);
}

TEST(RoutingJson, HoldsEveryChoiceExactly) {
  const TemporaryFolder folder;
  const ModelSpec spec = test_spec(16, 4, 3);
  ActivationRecorder recorder;
  record_random(recorder, spec, 30);
  const RequestChoices choices = recorder.choices_of(5);
  ASSERT_TRUE(write(folder / "all.json", spec, choices));
  const json file = parse(folder / "all.json");
  EXPECT_EQ(file["format"], "soli-routing-1");
  EXPECT_EQ(file["moe_layers"], json({1, 2, 3}));
  ASSERT_EQ(file["tokens"].size(), 30U);
  EXPECT_EQ(file["tokens"][10]["kind"], "prompt");
  EXPECT_EQ(file["tokens"][11]["kind"], "generated");
  EXPECT_EQ(file["tokens"][11]["token"], 111);
  size_t n = 0;
  for (const json& token : file["tokens"]) {
    for (const json& layer : token["layers"]) {
      const RecordedRoute& route = choices.routes[n++];
      EXPECT_EQ(layer["layer"], route.layer);
      EXPECT_EQ(layer["gate_entropy"].get<float>(), route.gate_entropy_bits);
      const std::span<const ExpertCall> calls = choices.calls_of(route);
      ASSERT_EQ(layer["ids"].size(), calls.size());
      for (size_t i = 0; i < calls.size(); ++i) {
        EXPECT_EQ(layer["ids"][i], calls[i].expert);
        EXPECT_EQ(layer["weights"][i].get<float>(), calls[i].weight);  // every bit
      }
    }
  }
  EXPECT_EQ(n, choices.routes.size());
}

TEST(RoutingJson, NamesAPathThatCannotBeWritten) {
  const Status status = write("/no/such/folder/x.json", test_spec(4, 2, 2), {});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, testing::HasSubstr("/no/such/folder/x.json"));
}

}  // namespace
}  // namespace soli
