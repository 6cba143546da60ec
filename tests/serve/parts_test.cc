// The smaller parts: routes, lines of the log, the log itself, the workers, figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "serve/access_log.h"
#include "serve/expert_figures.h"
#include "serve/metrics.h"
#include "serve/request_log.h"
#include "serve/routes.h"
#include "serve/service_manager.h"
#include "serve/worker_pool.h"
#include "support/temporary_folder.h"

namespace soli::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RoutesTest, TakesPathsLiterally) {
  EXPECT_EQ(find_route("/health")->id, RouteId::kHealth);
  EXPECT_EQ(find_route("/v1/models")->id, RouteId::kModels);
  EXPECT_EQ(find_route("/v1/models/a/b%20c")->id, RouteId::kModel);
  for (const char* path : {"", "/", "/health/", "//health", "/HEALTH", "/v1", "/v1/models/", "/v1/chat", "*"})
    EXPECT_EQ(find_route(path), nullptr) << path;
}

TEST(RoutesTest, MethodsOfARoute) {
  const Route& health = route_of(RouteId::kHealth);
  EXPECT_TRUE(allows_method(health, "GET") && allows_method(health, "HEAD"));
  EXPECT_FALSE(allows_method(health, "POST"));
  EXPECT_FALSE(allows_method(health, "get"));
  EXPECT_EQ(allowed_methods(route_of(RouteId::kChat)), "POST, OPTIONS");
  EXPECT_EQ(route_of(RouteId::kOther).path, "other");
}

TEST(RoutesTest, DecodesPercentSigns) {
  EXPECT_EQ(decode_percent("a%2Fb%20c"), "a/b c");
  for (const char* text : {"%", "%2", "%zz", "a%2"}) EXPECT_FALSE(decode_percent(text)) << text;
}

RequestSummary summary_of(int64_t n_prompt, int64_t n_generated) {
  const EngineTime begin = EngineTime(std::chrono::seconds(10));
  return {.n_prompt = n_prompt,
          .n_cached = 1,
          .n_generated = n_generated,
          .n_preempted = 2,
          .submitted = begin,
          .first_computed = begin + std::chrono::seconds(1),
          .first_token = begin + std::chrono::seconds(3),
          .finished = begin + std::chrono::seconds(7)};
}

TEST(RequestUseTest, AddsUpOverChoices) {
  RequestUse use;
  use.add(summary_of(5, 8), Outcome::kStop);
  use.add(summary_of(5, 9), Outcome::kLength);
  EXPECT_EQ(use.n_prompt, 10);
  EXPECT_EQ(use.n_generated, 17);
  EXPECT_DOUBLE_EQ(use.queue_seconds, 1);
  EXPECT_DOUBLE_EQ(use.prefill_seconds, 2);
  EXPECT_DOUBLE_EQ(use.decode_seconds, 4);
  EXPECT_EQ(use.outcome, Outcome::kLength);
  use.add({}, Outcome::kAbort);
  use.add(summary_of(1, 1), Outcome::kStop);
  EXPECT_EQ(use.outcome, Outcome::kAbort);
}

TEST(AccessLineTest, IsOneLineOfJson) {
  HttpRecord record{.id = "req-1", .peer = "[::1]:1", .method = "GET", .path = "/a\"\n\xff", .status = 200};
  record.abandoned = true;
  RequestContext context;
  context.key_name = "alice";
  context.add_use(summary_of(5, 8), Outcome::kStop);
  const std::string line = access_line(record, &context);
  EXPECT_THAT(line, Not(HasSubstr("\n")));
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["path"], "/a\"\\n\\xFF");
  EXPECT_EQ(json["key"], "alice");
  EXPECT_EQ(json["client_left"], true);
  EXPECT_EQ(json["completion_tokens"], 8);
  EXPECT_EQ(json["decode_ms"], 4000);
  EXPECT_FALSE(json.contains("cut_off"));
  EXPECT_FALSE(json.contains("error"));
  record.abandoned = false;
  record.cut_off = true;
  context.set_failure("/m.gguf: worn out");
  const auto other = nlohmann::json::parse(access_line(record, &context));
  EXPECT_FALSE(other.contains("client_left"));
  EXPECT_EQ(other["cut_off"], true);
  EXPECT_EQ(other["error"], "/m.gguf: worn out");
  EXPECT_EQ(failure_line(record, context), "request req-1 failed: /m.gguf: worn out");
  EXPECT_FALSE(nlohmann::json::parse(access_line(record, nullptr)).contains("outcome"));
  EXPECT_THAT(slow_line(record, &context), HasSubstr("waiting 1.00 s, prefill 2.00 s, decode 4.00 s"));
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(AccessLogTest, WritesAppendsAndReopens) {
  const TemporaryFolder folder;
  const std::string path = folder / "log";
  std::ofstream(path) << "before\n";
  {
    const auto log = AccessLog::open(path).value();
    log->write("one");
    while (lines_of(path).size() < 2) std::this_thread::yield();
    std::filesystem::rename(path, path + ".1");
    ASSERT_TRUE(log->reopen());
    for (int i = 0; i < 100; ++i) log->write("line " + std::to_string(i));
  }
  EXPECT_THAT(lines_of(path + ".1"), ElementsAre("before", "one"));
  const std::vector<std::string> lines = lines_of(path);
  ASSERT_EQ(lines.size(), 100U);
  EXPECT_EQ(lines[99], "line 99");
  EXPECT_FALSE(AccessLog::open(folder / "no/such/folder"));
}

TEST(AccessLogTest, TellsBeforehandWhetherItCouldBeOpened) {
  const TemporaryFolder folder;
  EXPECT_TRUE(AccessLog::check(folder / "log"));
  EXPECT_FALSE(std::filesystem::exists(folder / "log")) << "nothing is made";
  std::ofstream(folder / "log") << "before\n";
  EXPECT_TRUE(AccessLog::check(folder / "log"));
  EXPECT_TRUE(AccessLog::check("log"));
  const std::string missing = folder / "no/such/log";
  EXPECT_EQ(AccessLog::check(missing).error().message,
            "--access-log " + missing + ": No such file or directory");
  EXPECT_THAT(AccessLog::check(folder / "").error().message, HasSubstr("Is a directory"));
  EXPECT_THAT(AccessLog::check(folder / "log/log").error().message, HasSubstr("Not a directory"));
}

TEST(AccessLogTest, DropsWhatADiskDoesNotTake) {
  const auto log = AccessLog::open("/dev/full").value();
  log->write("lost");
  while (log->n_dropped() == 0) std::this_thread::yield();
  EXPECT_EQ(log->n_dropped(), 1);
}

TEST(WorkerPoolTest, RunsTasksAndIsBounded) {
  WorkerPool pool(1, 2);
  std::promise<void> begun;
  std::promise<void> go_on;
  ASSERT_TRUE(pool.submit([&] {
    begun.set_value();
    go_on.get_future().wait();
  }));
  begun.get_future().wait();
  std::atomic<int> n_done = 0;
  EXPECT_TRUE(pool.submit([&] { ++n_done; }));
  EXPECT_TRUE(pool.submit([&] { ++n_done; }));
  EXPECT_FALSE(pool.submit([&] { ++n_done; }));
  go_on.set_value();
  while (n_done < 2) std::this_thread::yield();
  pool.stop();
  EXPECT_FALSE(pool.submit([&] { ++n_done; }));
  EXPECT_EQ(n_done, 2);
}

TEST(WorkerPoolTest, DropsWhatWaitsAtTheEnd) {
  const auto token = std::make_shared<int>();
  WorkerPool pool(0, 10);
  ASSERT_TRUE(pool.submit([token] {}));
  EXPECT_EQ(token.use_count(), 2);
  pool.stop();
  EXPECT_EQ(token.use_count(), 1);
}

TEST(MetricsTest, ShowsWhatWasCounted) {
  Metrics metrics("a \"model\"");
  metrics.count_answer(RouteId::kChat, 200);
  metrics.count_answer(RouteId::kOther, 404);
  metrics.count_choice(summary_of(5, 5), Outcome::kStop);
  metrics.count_choice({}, Outcome::kAbort);
  metrics.count_prompt(5);
  metrics.observe_request(7.5);
  std::string text = metrics.text({}, {});
  EXPECT_THAT(text, HasSubstr("soli_http_responses_total{code=\"404\",path=\"other\"} 1\n"));
  const std::string model = "model_name=\"a \\\"model\\\"\"";
  EXPECT_THAT(text, HasSubstr("soli_requests_total{finished_reason=\"stop\"," + model + "} 1\n"));
  EXPECT_THAT(text, HasSubstr("soli_requests_total{finished_reason=\"abort\"," + model + "} 1\n"));
  EXPECT_THAT(text, HasSubstr("soli_time_to_first_token_seconds_sum{" + model + "} 3\n"));
  EXPECT_THAT(text, HasSubstr("soli_time_per_output_token_seconds_sum{" + model + "} 1\n"));
  EXPECT_THAT(text, HasSubstr("soli_e2e_request_latency_seconds_count{" + model + "} 1\n"));
  EXPECT_THAT(text, HasSubstr("soli_prompt_tokens_total{" + model + "} 5\n"));
  EXPECT_THAT(text, Not(HasSubstr("soli_num_requests_running")));

  ModelFigures figures;
  figures.engine.n_running = 3;
  figures.engine.kv_pages_in_use = 5;
  figures.max_kv_pages = 10;
  figures.experts = {{{}, 0, {7, 1'500'000'000}}, {{}, 1, {0, 0}}};
  text = metrics.text({}, figures);
  EXPECT_THAT(text, HasSubstr("soli_num_requests_running{" + model + "} 3\n"));
  EXPECT_THAT(text, HasSubstr("soli_kv_cache_usage_ratio{" + model + "} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("soli_expert_calls_total{" + model + ",expert=\"0\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("soli_expert_calls_total{" + model + ",expert=\"1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("soli_expert_busy_seconds_total{" + model + ",expert=\"0\"} 1.5\n"));
  EXPECT_THAT(text, Not(HasSubstr("soli_expert_cache_lookups_total")));
  figures.cache.emplace().wait_ns = 1'500'000'000;
  figures.experts = {{3, 0, {7, 500'000'000}}};
  text = metrics.text({}, figures);
  EXPECT_THAT(text, HasSubstr("soli_expert_wait_seconds_total{" + model + "} 1.5\n"));
  EXPECT_THAT(text, HasSubstr("soli_expert_calls_total{" + model + ",expert=\"0\",layer=\"3\"} 7\n"));
  EXPECT_THAT(text,
              HasSubstr("soli_expert_busy_seconds_total{" + model + ",expert=\"0\",layer=\"3\"} 0.5\n"));
}

/// Two experts in each layer but the first.
ModelSpec spec_with_experts() {
  ModelSpec spec;
  spec.n_layers = 3;
  spec.n_leading_dense_layers = 1;
  spec.router.n_experts = 2;
  return spec;
}

TEST(ExpertFiguresTest, TellOfExpertsOrOfLayersToo) {
  const ModelSpec spec = spec_with_experts();
  for (const auto metrics : {ExpertMetrics::kExperts, ExpertMetrics::kLayers}) {
    const auto figures = std::move(*ExpertFigures::create(spec, metrics));
    figures->meter().layer(1).add_calls(1, 5);
    figures->meter().layer(2).add_calls(1, 20);
    figures->meter().layer(2).add_busy(1, 300);
    std::vector<std::string> shown;
    for (const ExpertFigure& figure : figures->read()) {
      shown.push_back(fmt::format("{} {}: {} {}", figure.layer.value_or(-1), figure.expert, figure.work.calls,
                                  figure.work.busy_ns));
    }
    if (metrics == ExpertMetrics::kExperts) {
      EXPECT_THAT(shown, ElementsAre("-1 0: 0 0", "-1 1: 25 300"));
    } else {
      EXPECT_THAT(shown, ElementsAre("1 0: 0 0", "1 1: 5 0", "2 0: 0 0", "2 1: 20 300"));
    }
  }
}

TEST(ExpertFiguresTest, AreNotThereWhereNobodyAskedOrThereAreNoExperts) {
  EXPECT_EQ(*ExpertFigures::create(spec_with_experts(), ExpertMetrics::kNone), nullptr);
  ModelSpec dense = spec_with_experts();
  dense.router.n_experts = 0;
  EXPECT_EQ(*ExpertFigures::create(dense, ExpertMetrics::kLayers), nullptr);
}

TEST(ExpertFiguresTest, AreBounded) {
  ModelSpec spec = spec_with_experts();
  spec.router.n_experts = 10'000;
  EXPECT_TRUE(ExpertFigures::create(spec, ExpertMetrics::kLayers)) << "20000";
  spec.router.n_experts = 10'001;
  EXPECT_TRUE(ExpertFigures::create(spec, ExpertMetrics::kExperts));
  const auto by_layer = ExpertFigures::create(spec, ExpertMetrics::kLayers);
  ASSERT_FALSE(by_layer);
  EXPECT_EQ(by_layer.error().kind, ErrorKind::kLimit);
  EXPECT_EQ(by_layer.error().message,
            "10001 experts in each of 2 layers are 20002 series of each metric; 20000 are allowed ('experts' "
            "sums over the layers)");
  spec.router.n_experts = 20'001;
  const auto experts = ExpertFigures::create(spec, ExpertMetrics::kExperts);
  ASSERT_FALSE(experts);
  EXPECT_EQ(experts.error().message,
            "20001 experts are 20001 series of each metric; 20000 are allowed ('none' has none)");
}

TEST(ServiceManagerTest, SendsOneDatagram) {
  ::unsetenv("NOTIFY_SOCKET");
  EXPECT_TRUE(notify_service_manager("READY=1"));
  const TemporaryFolder folder;
  const std::string path = folder / "socket";
  struct sockaddr_un place = {};
  place.sun_family = AF_UNIX;
  path.copy(place.sun_path, sizeof(place.sun_path) - 1);
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const struct sockaddr*>(&place), sizeof(place)), 0);
  ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  EXPECT_TRUE(notify_service_manager("READY=1"));
  char text[64];
  const ssize_t n = ::recv(socket, text, sizeof(text), 0);
  EXPECT_EQ(std::string(text, static_cast<size_t>(n)), "READY=1");
  ::close(socket);
  for (const std::string& bad : {folder / "nobody", std::string("relative"), "/" + std::string(200, 'a')}) {
    ::setenv("NOTIFY_SOCKET", bad.c_str(), 1);
    EXPECT_FALSE(notify_service_manager("READY=1")) << bad;
  }
  ::unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace soli::serve
