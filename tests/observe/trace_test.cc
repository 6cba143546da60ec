#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/affinity.h"
#include "model/policy_text.h"
#include "observe/trace_reader.h"
#include "observe/trace_statistics.h"
#include "observe/trace_writer.h"
#include "observe/traces.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

constexpr int64_t kTraceExperts = 4;

/// Layers 1 and 2 have experts, of which a token calls up to 2.
ModelSpec traced_spec() { return test_spec(kTraceExperts, 2, 2); }

TraceShape traced_shape(bool has_logits = false) {
  return *TraceShape::of_model(traced_spec(), 2, has_logits);
}

/// A step of rows that all call expert `expert` alone, in layers [1, end_layer).
void trace_step(ChoiceRecorder& recorder, std::span<const BatchRow> rows, int32_t expert,
                int64_t end_layer = 3) {
  const auto n = static_cast<int64_t>(rows.size());
  const std::vector<float> logits(static_cast<size_t>(n * kTraceExperts), 0.5F);
  Choice choice;
  choice.row_begin = {0};
  for (int64_t row = 0; row < n; ++row) {
    choice.ids.push_back(expert);
    choice.weights.push_back(0.25F);
    choice.row_begin.push_back(static_cast<int32_t>(row + 1));
  }
  recorder.begin_step(nullptr);
  for (int64_t layer = 1; layer < end_layer; ++layer) {
    RouterView view;
    view.layer = layer;
    view.rows = rows;
    view.logits = {logits.data(), n, kTraceExperts};
    recorder.on_route(view, choice);
  }
}

std::vector<BatchRow> rows_of(RequestId request, int64_t begin, int64_t n) {
  std::vector<BatchRow> rows(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    rows[static_cast<size_t>(i)].request = request;
    rows[static_cast<size_t>(i)].position = begin + i;
    rows[static_cast<size_t>(i)].token = static_cast<int32_t>(70 + begin + i);
  }
  return rows;
}

std::unique_ptr<TraceRing> make_ring(Budget& budget, const TraceShape& shape, int64_t bytes) {
  return std::make_unique<TraceRing>(*TraceRing::allocate(budget, shape, bytes), shape);
}

std::vector<int64_t> ready_positions(const TraceRing& ring) {
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < ring.n_ready(); ++i) positions.push_back(ring.front(i).head->position);
  return positions;
}

TEST(TraceRecorder, RowsAreSeenOnceTheirLastLayerIsThere) {
  Budget budget;
  const auto ring = make_ring(budget, traced_shape(), 4096);
  TraceRecorder recorder(traced_spec(), traced_shape(), {}, *ring);
  trace_step(recorder, rows_of(1, 0, 3), 2, 2);
  EXPECT_EQ(ring->n_ready(), 0) << "a step that failed after layer 1";
  trace_step(recorder, rows_of(1, 5, 2), 3);
  EXPECT_EQ(ready_positions(*ring), (std::vector<int64_t>{5, 6}));
  const TraceSlot slot = ring->front(1);
  EXPECT_EQ(slot.head->request, 1U);
  EXPECT_EQ(slot.head->token, 76);
  EXPECT_EQ(std::vector<int16_t>(slot.ids.begin(), slot.ids.end()), (std::vector<int16_t>{3, -1, 3, -1}));
  EXPECT_EQ(std::vector<float>(slot.weights.begin(), slot.weights.end()),
            (std::vector<float>{0.25F, 0, 0.25F, 0}));
  EXPECT_EQ(recorder.n_dropped(), 0);
}

TEST(TraceRecorder, AFullRingLosesTokensAndCountsThem) {
  Budget budget;
  const auto ring = make_ring(budget, traced_shape(), 4096);
  TraceRecorder recorder(traced_spec(), traced_shape(), {}, *ring);
  const int64_t capacity = ring->capacity();
  trace_step(recorder, rows_of(1, 0, capacity + 3), 0);
  EXPECT_EQ(ring->n_ready(), capacity);
  EXPECT_EQ(recorder.n_dropped(), 3);
  ring->take(2);
  trace_step(recorder, rows_of(1, 1000, 4), 0);
  EXPECT_EQ(recorder.n_dropped(), 5);
  const std::vector<int64_t> positions = ready_positions(*ring);
  EXPECT_EQ(positions[positions.size() - 2], 1000);
  EXPECT_EQ(positions.back(), 1001);
}

TEST(TraceRecorder, KeptChoicesAndRequestsAreRecorded) {
  Budget budget;
  const auto ring = make_ring(budget, traced_shape(), 4096);
  TraceRecorder recorder(traced_spec(), traced_shape(), {}, *ring);
  recorder.on_request(9, 30, {.experts_per_token = 1});
  const std::array<uint32_t, 3> layer_begin = {0, 2, 3};
  const std::array<uint16_t, 3> ids = {3, 1, 2};
  const std::array<float, 3> weights = {0.75F, 0.25F, 1};
  recorder.on_kept(
      {.request = 9, .position = 4, .token = 11, .layer_begin = layer_begin, .ids = ids, .weights = weights});
  ASSERT_EQ(ring->n_ready(), 1);
  const TraceSlot slot = ring->front(0);
  EXPECT_TRUE(slot.head->is_cached);
  EXPECT_EQ(std::vector<int16_t>(slot.ids.begin(), slot.ids.end()), (std::vector<int16_t>{3, 1, 2, -1}));
  EXPECT_EQ(slot.weights[1], 0.25F);
  const std::vector<TraceRequest> requests = recorder.take_requests();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(requests[0].id, 9U);
  EXPECT_EQ(requests[0].n_prompt, 30);
  EXPECT_EQ(requests[0].policy, R"({"experts_per_token":1})");
  EXPECT_TRUE(recorder.take_requests().empty());
}

TEST(TraceRecorder, AllocatesNothingButTheRing) {
  Budget budget;
  const auto ring = make_ring(budget, traced_shape(), 1 << 20);
  EXPECT_EQ(budget.used_by_name().at("trace"), Slab::charged_bytes(1 << 20));
  EXPECT_GE(ring->capacity(), (1 << 20) / 128);
}

TEST(TraceSampling, TakesItsShareWhateverTheOrder) {
  const TraceSampling of_requests = {.share = 0.3};
  const TraceSampling of_tokens = {.share = 0.3, .of_tokens = true};
  int64_t n_requests = 0;
  int64_t n_tokens = 0;
  for (uint64_t request = 1; request <= 2000; ++request) {
    n_requests += of_requests.takes(request, 0) ? 1 : 0;
    EXPECT_EQ(of_requests.takes(request, 0), of_requests.takes(request, 77));
    n_tokens += of_tokens.takes(request, static_cast<int64_t>(request % 5)) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(n_requests), 600, 80);
  EXPECT_NEAR(static_cast<double>(n_tokens), 600, 80);
  EXPECT_TRUE(TraceSampling{}.takes(1, 1));
}

TEST(TraceWriter, WhatIsWrittenIsReadBack) {
  const TemporaryFolder folder;
  const std::string path = folder / "t.sqlite";
  Budget budget;
  const TraceInfo info = {.shape = traced_shape(true), .model = "m", .policy = "{}", .soli = "x"};
  auto writer =
      TraceWriter::start(path, false, info, traced_spec(), budget, 1 << 16, *affinity_of(::pthread_self()));
  ASSERT_TRUE(writer) << writer.error().message;
  ChoiceRecorder& recorder = (*writer)->recorder();
  recorder.on_request(2, 3, {});
  recorder.on_request(1, 1, {});
  trace_step(recorder, rows_of(2, 0, 3), 1);
  trace_step(recorder, rows_of(1, 0, 1), 2);
  trace_step(recorder, rows_of(2, 1, 1), 3);  // computed again: the later choice stands
  const auto totals = (*writer)->finish();
  ASSERT_TRUE(totals) << totals.error().message;
  EXPECT_EQ(totals->n_written, 5);
  EXPECT_EQ((*writer)->finish()->n_written, 5);

  auto reader = TraceReader::open(path);
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_TRUE(reader->info().is_ended);
  EXPECT_EQ(reader->shape().moe_layers, (std::vector<int32_t>{1, 2}));
  std::string seen;
  ASSERT_TRUE(reader->for_each_row({}, true, [&](const TraceRow& row) -> Status {
    EXPECT_EQ(row.logits.size(), 8U);
    EXPECT_EQ(row.logits[7], 0.5F);
    seen += fmt::format("{}:{}:{} ", row.request, row.position, ids_of_layer(row, reader->shape(), 1)[0]);
    return {};
  }));
  EXPECT_EQ(seen, "1:0:2 2:0:1 2:1:3 2:2:1 ");
  const auto figures = count_trace(*reader);
  ASSERT_TRUE(figures);
  EXPECT_EQ(figures->n_tokens, 4);
  EXPECT_EQ(figures->n_requests, 2);
  EXPECT_EQ(figures->layers[0].calls, (std::vector<int64_t>{0, 2, 1, 1}));
  EXPECT_NEAR(*figures->layers[0].router_entropy_bits, 2, 1e-12);
  EXPECT_EQ(*figures->layers[0].activation.stability, 0) << "no pair across requests";
}

TEST(TraceShape, RefusesWhatATraceCannotHold) {
  EXPECT_FALSE(TraceShape::of_model(ModelSpec(), 1, false));
  EXPECT_FALSE(TraceShape::of_model(test_spec(40'000, 2, 1), 2, false));
  EXPECT_FALSE(TraceShape::of_model(test_spec(4, 2, 1), 5, false));
  EXPECT_FALSE(TraceShape::of_model(test_spec(30'000, 2, 4000), 2, false));
}

TEST(TraceInfo, MetaGivesItBack) {
  TraceInfo info = {.shape = traced_shape(true), .model = "a\xff", .policy = "{}", .soli = "1.2"};
  info.sampling = {.share = 0.125, .of_tokens = true};
  info.n_dropped = 7;
  const auto read = from_meta(to_meta(info));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->model, "a\xef\xbf\xbd");
  EXPECT_EQ(read->sampling.share, 0.125);
  EXPECT_TRUE(read->sampling.of_tokens);
  EXPECT_TRUE(read->shape.has_logits);
  EXPECT_EQ(read->n_dropped, 7);
  EXPECT_FALSE(read->is_ended);
}

}  // namespace
}  // namespace soli
