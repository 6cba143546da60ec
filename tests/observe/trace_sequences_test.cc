#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/affinity.h"
#include "observe/trace_accesses.h"
#include "observe/trace_sequences.h"
#include "observe/trace_writer.h"
#include "observe/traces.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::HasSubstr;

/// Layers 1 and 2 have 4 experts, of which a token calls up to 2.
ModelSpec replayed_spec() {
  ModelSpec spec = test_spec(4, 2, 2);
  spec.vocab_size = 100;
  return spec;
}

/// A token that calls these experts in both layers, each with this weight.
struct WrittenToken {
  RequestId request = 1;
  int64_t position = 0;
  std::vector<int32_t> experts = {};
  float weight = 0.5F;
  int32_t token = 7;
};

class ReplayedTrace {
 public:
  explicit ReplayedTrace(const std::vector<WrittenToken>& tokens, int64_t n_prompt = 0) {
    const ModelSpec spec = replayed_spec();
    Budget budget;
    const TraceInfo info = {
        .shape = *TraceShape::of_model(spec, 2, false), .model = "m", .policy = "{}", .soli = "x"};
    auto writer =
        TraceWriter::start(path_, false, info, spec, budget, 1 << 16, *affinity_of(::pthread_self()));
    ChoiceRecorder& recorder = (*writer)->recorder();
    for (const RequestId request : {1, 2}) recorder.on_request(request, n_prompt, {});
    for (const WrittenToken& token : tokens) write(recorder, token);
    EXPECT_TRUE((*writer)->finish());
  }

  TraceReader open() const { return TraceReader::open(path_).value(); }

 private:
  static void write(ChoiceRecorder& recorder, const WrittenToken& token) {
    BatchRow row;
    row.request = token.request;
    row.position = token.position;
    row.token = token.token;
    Choice choice;
    choice.ids = token.experts;
    choice.weights.assign(token.experts.size(), token.weight);
    choice.row_begin = {0, static_cast<int32_t>(token.experts.size())};
    recorder.begin_step(nullptr);
    for (int64_t layer = 1; layer < 3; ++layer) {
      RouterView view;
      view.layer = layer;
      view.rows = {&row, 1};
      recorder.on_route(view, choice);
    }
  }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "t.sqlite";
};

std::string refusal_of(const ReplayedTrace& trace, const ModelSpec& spec, bool skips_incomplete = false) {
  TraceReader reader = trace.open();
  const auto sequences = read_sequences(reader, spec, -1, skips_incomplete);
  return sequences ? "none" : sequences.error().message;
}

TEST(TraceSequences, TokensAndChoicesAreThoseOfTheTrace) {
  const ReplayedTrace trace({{1, 0, {2, 1}}, {2, 0, {3}}, {1, 1, {}, 0.5F, 9}});
  TraceReader reader = trace.open();
  const auto sequences = read_sequences(reader, replayed_spec(), -1, false);
  ASSERT_TRUE(sequences) << sequences.error().message;
  ASSERT_EQ(sequences->sequences.size(), 2U);
  EXPECT_EQ(sequences->sequences[0].tokens, (std::vector<int32_t>{7, 9}));
  EXPECT_EQ(sequences->sequences[1].request, 2U);
  EXPECT_EQ(sequences->n_tokens(), 3);
  EXPECT_EQ(sequences->longest(), 2);
  const auto choices = read_choices(reader, 1);
  ASSERT_TRUE(choices);
  ASSERT_EQ(choices->n_positions(), 2);
  EXPECT_THAT(choices->ids(0, 1), testing::ElementsAre(2, 1));
  EXPECT_THAT(choices->weights(0, 1), testing::ElementsAre(0.5F, 0.5F));
  EXPECT_TRUE(choices->ids(1, 0).empty());
  EXPECT_EQ(read_sequences(reader, replayed_spec(), 2, false)->n_tokens(), 1);
  EXPECT_THAT(read_sequences(reader, replayed_spec(), 5, false).error().message,
              HasSubstr("has no token of request 5"));
}

TEST(TraceSequences, WhatIsNotWholeIsNamedOrLeftOut) {
  const ReplayedTrace trace({{1, 0, {2}}, {1, 2, {2}}, {2, 0, {1}}});
  EXPECT_THAT(refusal_of(trace, replayed_spec()), HasSubstr("request 1: position 1 is not in the trace"));
  TraceReader reader = trace.open();
  const auto sequences = read_sequences(reader, replayed_spec(), -1, true);
  ASSERT_TRUE(sequences);
  EXPECT_EQ(sequences->n_skipped, 1);
  EXPECT_EQ(sequences->sequences.front().request, 2U);
  const ReplayedTrace without_begin({{1, 1, {2}}});
  EXPECT_THAT(refusal_of(without_begin, replayed_spec()), HasSubstr("position 0 is not in the trace"));
  EXPECT_THAT(refusal_of(without_begin, replayed_spec(), true), HasSubstr("none of its 1 requests is whole"));
  EXPECT_THAT(refusal_of(ReplayedTrace({}), replayed_spec()), HasSubstr("has no token"));
}

TEST(TraceSequences, WhatDoesNotFitTheModelIsNamed) {
  const ReplayedTrace trace({{1, 0, {2, 1}}});
  ModelSpec deeper = replayed_spec();
  deeper.n_layers = 4;
  EXPECT_THAT(refusal_of(trace, deeper),
              HasSubstr("experts in 2 layers: 1,2; this one has them in 3 layers: 1,2,3"));
  ModelSpec wider = replayed_spec();
  wider.router.n_experts = 5;
  EXPECT_THAT(refusal_of(trace, wider), HasSubstr("4 experts per layer; this one has 5"));
  ModelSpec dense = replayed_spec();
  dense.router.n_experts = 0;
  EXPECT_THAT(refusal_of(trace, dense), HasSubstr("dense model"));
  ModelSpec narrow = replayed_spec();
  narrow.vocab_size = 7;
  EXPECT_THAT(refusal_of(trace, narrow), HasSubstr("token 7 is not in the model's vocabulary of 7 tokens"));
  EXPECT_THAT(refusal_of(ReplayedTrace({{1, 0, {3}, -2}}), replayed_spec()),
              HasSubstr("the weight of expert 3 in layer 1 is -2; 0 or more is allowed"));
}

struct Turn {
  int64_t layer, n_tokens;
  std::vector<int32_t> experts, calls;
  bool operator==(const Turn&) const = default;
};

/// Of the first of two layers, which are alike.
std::vector<Turn> turns_of(const ReplayedTrace& trace, int64_t prompt_rows) {
  TraceReader reader = trace.open();
  const auto accesses = accesses_of(reader, -1, prompt_rows);
  AccessTrace::Reader visits(*accesses);
  std::vector<Turn> turns;
  while (const LayerVisit* visit = visits.next()) {
    if (visit->layer == 0)
      turns.push_back({visit->layer,
                       visit->n_tokens,
                       {visit->experts.begin(), visit->experts.end()},
                       {visit->calls.begin(), visit->calls.end()}});
  }
  EXPECT_EQ(accesses->n_visits(), 2 * static_cast<int64_t>(turns.size()));
  return turns;
}

TEST(TraceAccesses, TokensOfAPromptShareSteps) {
  const ReplayedTrace trace({{1, 0, {2, 1}}, {1, 1, {2}}, {1, 2, {3}}, {1, 3, {0}}, {1, 4, {0}}, {2, 0, {1}}},
                            3);
  EXPECT_EQ(turns_of(trace, 1), (std::vector<Turn>{{0, 1, {1, 2}, {1, 1}},
                                                   {0, 1, {2}, {1}},
                                                   {0, 1, {3}, {1}},
                                                   {0, 1, {0}, {1}},
                                                   {0, 1, {0}, {1}},
                                                   {0, 1, {1}, {1}}}));
  EXPECT_EQ(
      turns_of(trace, 2),
      (std::vector<Turn>{
          {0, 2, {1, 2}, {1, 2}}, {0, 1, {3}, {1}}, {0, 1, {0}, {1}}, {0, 1, {0}, {1}}, {0, 1, {1}, {1}}}));
  EXPECT_EQ(turns_of(trace, 9).front(), (Turn{0, 3, {1, 2, 3}, {1, 2, 1}}));
}

TEST(TraceAccesses, BeyondTheRoomTheyAreCounted) {
  const ReplayedTrace trace({{1, 0, {2}}, {1, 1, {2}}});
  TraceReader reader = trace.open();
  const auto accesses = accesses_of(reader, -1, 1, 7);
  ASSERT_TRUE(accesses);
  EXPECT_EQ(accesses->n_visits() + accesses->n_dropped(), 4);
  EXPECT_EQ(accesses->n_visits(), 2);
}

}  // namespace
}  // namespace soli
