// The parts of the dashboard: queries, percentiles, requests that are remembered, tags, the page.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "serve/dashboard/dashboard.h"
#include "serve/dashboard/page.h"
#include "serve/dashboard/query.h"
#include "serve/dashboard/request_traces.h"
#include "serve/dashboard/tagged_response.h"
#include "serve/dashboard/window_figures.h"
#include "serve/routes.h"

namespace soli::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(DashboardRoutesTest, AreOfTheDashboard) {
  EXPECT_EQ(find_route("/dashboard/")->id, RouteId::kDashboard);
  EXPECT_EQ(find_route("/api/v1/dashboard/requests")->id, RouteId::kDashboardRequests);
  EXPECT_EQ(find_route("/api/v1/dashboard/requests/req-1")->id, RouteId::kDashboardRequest);
  for (const char* path : {"/dashboard/x", "/api/v1/dashboard", "/api/v1/dashboard/requests/"})
    EXPECT_EQ(find_route(path), nullptr) << path;
  EXPECT_TRUE(is_of_dashboard(RouteId::kDashboardHeat));
  EXPECT_FALSE(is_of_dashboard(RouteId::kMetrics));
}

TEST(DashboardQueryTest, ReadsWhatIsKnown) {
  const Query query =
      Query::parse("since=12&by_layer=true&tier=%31m&", {"tier", "since", "by_layer"}).value();
  EXPECT_EQ(query.integer("since", 0).value(), 12);
  EXPECT_EQ(query.integer("from", 7).value(), 7);
  EXPECT_TRUE(query.boolean("by_layer", false).value());
  EXPECT_EQ(query.tier().value(), 2U);
  EXPECT_EQ(Query::parse("", {}).value().tier().value(), 0U);
}

std::string error_of(std::string_view text) {
  const auto query = Query::parse(text, {"tier", "since", "by_layer"});
  if (!query) return query.error().code + ": " + query.error().message;
  const auto text_of = [](const auto& value) {
    return value ? std::string() : value.error().code + ": " + value.error().message;
  };
  return text_of(query->integer("since", 0)) + text_of(query->tier()) +
         text_of(query->boolean("by_layer", false));
}

TEST(DashboardQueryTest, RefusesTheRest) {
  EXPECT_EQ(error_of("sinc=1"),
            "unknown_parameter: the parameter 'sinc' is not known; known: tier, since, by_layer");
  EXPECT_EQ(error_of("since=1&since=2"), "invalid_value: 'since' stands there twice");
  for (const char* text : {"since=-1", "since=1.5", "since=", "since", "since=9007199254740993", "since=1x",
                           "since=99999999999999999999"}) {
    EXPECT_THAT(error_of(text), HasSubstr("allowed: a whole number from 0 to 9007199254740992")) << text;
  }
  EXPECT_EQ(error_of("tier=2s"), "invalid_value: 'tier' is '2s'; allowed: 1s, 10s, 1m, 10m");
  EXPECT_EQ(error_of("by_layer=1"), "invalid_value: 'by_layer' is '1'; allowed: true, false");
  EXPECT_THAT(error_of("tier=%zz"), HasSubstr("well-formed percent signs"));
}

TEST(DashboardFiguresTest, QuantilesAreInterpolatedWithinBuckets) {
  const double bounds[] = {1, 2, 4};
  EXPECT_TRUE(std::isnan(quantile_of(bounds, std::vector<double>{0, 0, 0, 0}, 0.5)));
  EXPECT_DOUBLE_EQ(quantile_of(bounds, std::vector<double>{0, 10, 0, 0}, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(quantile_of(bounds, std::vector<double>{5, 0, 5, 0}, 0.5), 1);
  EXPECT_DOUBLE_EQ(quantile_of(bounds, std::vector<double>{0, 5, 5, 0}, 0.75), 3);
  EXPECT_DOUBLE_EQ(quantile_of(bounds, std::vector<double>{0, 0, 0, 3}, 0.5), 4) << "beyond the last bound";
}

TEST(DashboardFiguresTest, CountWhatWasAdded) {
  Metrics metrics("");
  WindowFigureCounter counter(metrics.latencies());
  const EngineTime begin = EngineTime(std::chrono::seconds(10));
  const RequestSummary summary{.n_prompt = 3,
                               .n_generated = 3,
                               .submitted = begin,
                               .first_computed = begin,
                               .first_token = begin + std::chrono::seconds(2),
                               .finished = begin + std::chrono::seconds(3)};
  metrics.count_choice(summary, Outcome::kStop);
  ModelFigures model;
  model.engine.generated_tokens = 5;
  model.engine.n_running = 2;
  model.engine.n_finished = {1, 2, 0, 0, 0};
  model.engine.kv_pages_in_use = 1;
  model.max_kv_pages = 4;
  model.cache.emplace().hits = 7;
  auto figures = counter.take(model, metrics.latencies(), 1.5, 3);
  EXPECT_EQ(figures[kGeneratedTokens], 5);
  EXPECT_EQ(figures[kFinishedChoices], 3);
  EXPECT_EQ(figures[kBusySeconds], 1.5);
  EXPECT_EQ(figures[kCacheHits], 7);
  EXPECT_EQ(figures[kKvUsage], 0.25);
  EXPECT_EQ(figures[kOpenAlarms], 3);
  EXPECT_DOUBLE_EQ(quantile_of(counter.first_token_bounds(), counter.first_token_of(figures), 1), 2.5);
  EXPECT_EQ(figures[kPerTokenSeconds], 0.5);
  model.engine.generated_tokens = 6;
  figures = counter.take(model, metrics.latencies(), 1.5, 3);
  EXPECT_EQ(figures[kGeneratedTokens], 1);
  EXPECT_EQ(figures[kRunning], 2) << "a gauge";
  EXPECT_EQ(figures[kBusySeconds], 0);
  EXPECT_TRUE(std::isnan(quantile_of(counter.first_token_bounds(), counter.first_token_of(figures), 1)));
}

TracedRequest traced(const std::string& id, std::optional<size_t> key = {}, bool has_tokens = false) {
  TracedRequest request;
  request.id = id;
  request.key = key;
  request.has_tokens = has_tokens;
  if (has_tokens) request.prompt = {1, 2};
  request.n_tokens = static_cast<int64_t>(request.prompt.size());
  return request;
}

std::vector<std::string> ids_of(const RequestTraces& traces, std::optional<size_t> key = {}) {
  std::vector<std::string> ids;
  for (const TracedSummary& request : traces.list(key)) ids.push_back(request.id);
  return ids;
}

/// The token at `position`, with the routing of the one before, in one layer.
StreamEvent token_event(int32_t token, int64_t position) {
  StreamEvent event{.kind = StreamEvent::Kind::kToken, .token = token, .position = position};
  event.routing = {.position = position - 1, .layer_begin = {0, 2}, .ids = {3, 1}, .weights = {0.75F, 0.25F}};
  return event;
}
StreamEvent prompt_event(int32_t token, int64_t position) {
  StreamEvent event = token_event(token, position + 1);
  event.kind = StreamEvent::Kind::kPromptToken;
  event.position = position;
  return event;
}

TEST(RequestTracesTest, TheOldestIsForgotten) {
  RequestTraces traces(2, 1 << 20);
  const uint64_t first = traces.begin(traced("a"));
  traces.begin(traced("b", 1));
  traces.begin(traced("c"));
  EXPECT_THAT(ids_of(traces), ElementsAre("c"));
  EXPECT_THAT(ids_of(traces, 1), ElementsAre("b"));
  EXPECT_THAT(ids_of(traces, 2), IsEmpty());
  EXPECT_FALSE(traces.find("b", {}));
  EXPECT_FALSE(traces.find("b", 0));
  EXPECT_TRUE(traces.find("b", 1));
  traces.add(first, 0, token_event(1, 1));  // does nothing
  traces.finish(first, {});
  EXPECT_FALSE(traces.find("a", {}));
}

TEST(RequestTracesTest, TokensComeWithTheirRouting) {
  RequestTraces traces(2, 1 << 20);
  const uint64_t number = traces.begin(traced("a", {}, true));
  EXPECT_FALSE(traces.find("a", {})->has_begun);
  traces.add(number, 0, prompt_event(1, 0));
  traces.add(number, 0, prompt_event(2, 1));
  traces.add(number, 0, token_event(7, 2));  // with the routing of the last prompt token, again
  traces.add(number, 1, token_event(9, 2));  // of another choice
  traces.add(number, 0, token_event(8, 3));
  const TracedRequest request = *traces.find("a", {});
  EXPECT_TRUE(request.has_begun);
  EXPECT_EQ(request.n_generated, 3);
  EXPECT_THAT(request.generated, ElementsAre(7, 8));
  EXPECT_EQ(request.n_routed, 3);
  EXPECT_THAT(request.ids, ElementsAre(3, 1, 3, 1, 3, 1));
  EXPECT_THAT(request.layer_calls, ElementsAre(2, 2, 2));
  EXPECT_FALSE(request.use);
  EXPECT_EQ(traces.list({})[0].n_tokens, 4);
  traces.finish(number, {});
  EXPECT_EQ(traces.find("a", {})->use->outcome, Outcome::kAbort) << "no choice had ended";
}

TEST(RequestTracesTest, BytesAreBounded) {
  constexpr int64_t kMaxBytes = 20'000;
  RequestTraces traces(100, kMaxBytes);
  for (int r = 0; r < 20; ++r) {
    const uint64_t number = traces.begin(traced(std::to_string(r), {}, true));
    for (int64_t i = 0; i < 2000; ++i) traces.add(number, 0, token_event(5, 2 + i));
    EXPECT_LE(traces.bytes(), kMaxBytes);
    const TracedRequest request = *traces.find(std::to_string(r), {});
    EXPECT_EQ(request.n_generated, 2000);
    EXPECT_GT(request.n_dropped, 0) << "a quarter is for one";
    EXPECT_EQ(request.n_dropped + static_cast<int64_t>(request.generated.size()), 2000);
    EXPECT_LE(request.n_routed, request.n_tokens);
  }
  EXPECT_GE(ids_of(traces).size(), 3U);
  EXPECT_EQ(ids_of(traces).front(), "19");
  TracedRequest huge = traced("huge", {}, true);
  huge.prompt.resize(3000);
  traces.begin(std::move(huge));
  EXPECT_FALSE(traces.find("huge", {})->has_tokens) << "not even its prompt has room";
  EXPECT_EQ(traces.find("huge", {})->n_dropped, 3000);
  EXPECT_LE(traces.bytes(), kMaxBytes);
}

TEST(TaggedResponseTest, KnowsWhatTheClientHas) {
  const std::string tag = tag_of("body");
  EXPECT_THAT(tag, StartsWith("W/\""));
  EXPECT_NE(tag, tag_of("bodY"));
  const auto status = [&](const std::string& known) {
    HttpRequest request;
    request.headers = {{"if-none-match", known}};
    return tagged_response(request, tag, "body").status;
  };
  EXPECT_EQ(tagged_response({}, tag, "body").body, "body");
  EXPECT_EQ(status(tag), 304);
  EXPECT_EQ(status(tag.substr(2)), 304) << "weak or not";
  EXPECT_EQ(status("\"x\", " + tag + " "), 304);
  EXPECT_EQ(status("*"), 304);
  EXPECT_EQ(status("\"x\""), 200);
  EXPECT_EQ(status(""), 200);
}

std::string header_of(const HttpResponse& response, std::string_view name) {
  for (const HttpHeader& header : response.headers) {
    if (header.name == name) return header.value;
  }
  return "";
}

TEST(PageTest, MayRunItsOwnScriptsOnly) {
  const HttpResponse page = page_response({});
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body.size(), kPageSize);
  EXPECT_THAT(page.body, HasSubstr("</html>"));
  const std::string policy = header_of(page, "Content-Security-Policy");
  EXPECT_THAT(policy, StartsWith("default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(policy, HasSubstr("connect-src 'self'"));
  EXPECT_EQ(policy.find("http"), std::string::npos);
  EXPECT_EQ(header_of(page, "X-Content-Type-Options"), "nosniff");
  HttpRequest again;
  again.headers = {{"if-none-match", header_of(page, "ETag")}};
  EXPECT_EQ(page_response(again).status, 304);
}

TEST(DashboardTest, SaysHowMuchMemoryItNeeds) {
  ModelSpec spec;
  spec.n_layers = 4;
  spec.router.n_experts = 16;
  DashboardOptions options;
  EXPECT_TRUE(Dashboard::check(options, spec));
  spec.router.n_experts = 65'536;
  const Status status = Dashboard::check(options, spec);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kLimit);
  EXPECT_THAT(status.error().message,
              StartsWith("--dashboard-memory 16777216: 65536 experts in each of 4 layers need "));
}

}  // namespace
}  // namespace soli::serve
