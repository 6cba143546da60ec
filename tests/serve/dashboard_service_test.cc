// The dashboard of a service with a real engine, over real sockets. The test says when is counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "format/tokenizer.h"
#include "model/parameters.h"
#include "serve/engine_host.h"
#include "serve/http_client.h"
#include "serve/service.h"
#include "support/loaded_engine.h"

namespace soli::serve {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

constexpr const char* kAlice = "Authorization: Bearer key-of-alice\r\n";
constexpr const char* kBob = "Authorization: Bearer key-of-bob-1\r\n";
constexpr const char* kAnswer = R"({"prompt":[5,6,7],"max_tokens":6,"temperature":0,"ignore_eos":true)";

class DashboardServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.model_id = "mixtral";
    options_.dashboard = DashboardOptions{.counts_itself = false};
  }

  void start() {
    service_ = std::make_unique<Service>(options_, nullptr);
    http_ = HttpServer::start({.n_threads = 1}, *service_).value();
    service_->set_server(http_.get());
  }

  void load() {
    EngineOptions engine;
    engine.max_sequences = 4;
    engine.keep_routing = true;
    loaded_.emplace(
        LoadedEngine::create(golden_folder() + "mixtral/model.gguf", {.n_threads = 1}, engine).value());
    tokenizer_ = Tokenizer::from_gguf(loaded_->model->file().gguf()).value();
    parameters_ = count_parameters(loaded_->model->file());
    const ModelSpec& spec = loaded_->model->spec();
    meter_ = std::make_unique<ExpertMeter>(spec.n_layers, spec.router.n_experts);
    loaded_->executor->set_meter(meter_.get());
    model_.id = "mixtral";
    model_.tokenizer = tokenizer_.get();
    model_.context_length = loaded_->engine->context_length();
    model_.spec = &spec;
    model_.parameters = &parameters_;
    host_ = std::make_unique<EngineHost>(*loaded_->engine);
    service_->set_backend({.engine = loaded_->engine.get(),
                           .model = &model_,
                           .figures =
                               [this] {
                                 ModelFigures figures;
                                 figures.engine = loaded_->engine->counters();
                                 return figures;
                               },
                           .path = "",
                           .meter = meter_.get()});
    if (service_->dashboard() != nullptr) now_ms_ = service_->dashboard()->now_ms();
  }

  void TearDown() override {
    if (http_ != nullptr) http_->stop();
    if (host_ != nullptr) host_->stop();
    if (service_ != nullptr) service_->stop();
    http_.reset();
    service_.reset();
    host_.reset();
    loaded_.reset();
  }

  std::string ask(const std::string& method, const std::string& path, const std::string& fields,
                  const std::string& body = "") {
    TestClient client(http_->port());
    client.send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields +
                (body.empty() ? "\r\n"
                              : "Content-Type: application/json\r\nContent-Length: " +
                                    std::to_string(body.size()) + "\r\n\r\n" + body));
    return client.read_answer();
  }
  std::string get_figures(const std::string& path, const std::string& fields = "") {
    return ask("GET", "/api/v1/dashboard/" + path, fields);
  }
  Json figures(const std::string& path, const std::string& fields = "") {
    return Json::parse(body_of(get_figures(path, fields)));
  }
  Json complete(const std::string& more, const std::string& fields = "") {
    return Json::parse(body_of(ask("POST", "/v1/completions", fields, kAnswer + more + "}")));
  }
  /// Counts what has happened, as if a second had passed.
  void count() { service_->dashboard()->count(now_ms_ += 1000); }
  /// The state of the latest request, once it is `done`: that is after its client has its answer.
  Json latest_request(const std::string& fields = "") {
    for (int i = 0; i < 20'000; ++i) {
      const Json requests = figures("requests", fields)["requests"];
      if (!requests.empty() && requests[0]["state"] == "done") return requests[0];
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
  }

  ServiceOptions options_;
  std::optional<LoadedEngine> loaded_;
  std::unique_ptr<Tokenizer> tokenizer_;
  ParameterCounts parameters_;
  std::unique_ptr<ExpertMeter> meter_;
  openai::ServedModel model_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<EngineHost> host_;
  int64_t now_ms_ = 0;
};

TEST_F(DashboardServiceTest, HeatIsTheRoutingOfTheAnswers) {
  start();
  load();
  const Json answer = complete(R"(,"routing":"tokens")");
  const Json tokens = answer["choices"][0]["routing"]["tokens"];
  ASSERT_EQ(tokens.size(), 8U) << "the last token was not computed";
  count();
  const Json heat = figures("heat?tier=10s");
  int64_t n_calls = 0;
  for (size_t layer = 0; layer < heat["layers"].size(); ++layer) {
    std::vector<int64_t> expected(heat["layers"][layer]["calls"].size());
    for (const Json& token : tokens) {
      for (const size_t expert : token["experts"][layer]) ++expected.at(expert);
    }
    EXPECT_EQ(heat["layers"][layer]["calls"], Json(expected)) << layer;
    n_calls += std::accumulate(expected.begin(), expected.end(), int64_t{0});
  }
  EXPECT_EQ(heat["n_calls"], n_calls);
  EXPECT_EQ(heat["windows"], 1);
  const Json experts = figures("experts");
  EXPECT_EQ(experts["layers"][0]["calls"], heat["layers"][0]["calls"]);
  for (size_t e = 0; e < experts["layers"][0]["calls"].size(); ++e)
    EXPECT_DOUBLE_EQ(experts["layers"][0]["heat"][e], experts["layers"][0]["calls"][e].get<double>());
  const Json empty = figures("heat?from=1&to=2");
  EXPECT_TRUE(empty["from"].is_null() && empty["layers"][0]["entropy"].is_null());
  EXPECT_EQ(empty["n_calls"], 0);
}

TEST_F(DashboardServiceTest, TokensOfARequestAreThoseOfItsAnswer) {
  start();
  load();
  const Json answer = complete(R"(,"routing":"tokens")");
  const Json listed = latest_request();
  EXPECT_EQ(listed["outcome"], "length");
  EXPECT_EQ(listed["prompt_tokens"], 3);
  EXPECT_EQ(listed["generated_tokens"], 6);
  EXPECT_EQ(listed["path"], "/v1/completions");
  EXPECT_TRUE(listed["has_tokens"]);
  const std::string path = "requests/" + listed["id"].get<std::string>();
  const Json request = figures(path);
  const Json& tokens = request["tokens"];
  ASSERT_EQ(tokens.size(), 9U);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i]["position"], i);
    EXPECT_EQ(tokens[i]["generated"], i >= 3);
    if (i >= 3) text += tokens[i]["text"].get<std::string>();
    if (i == 8) continue;
    const Json& routed = answer["choices"][0]["routing"]["tokens"][i];
    for (const char* part : {"token", "experts", "weights"}) EXPECT_EQ(tokens[i][part], routed[part]) << i;
  }
  EXPECT_TRUE(tokens[8]["experts"].is_null());
  EXPECT_EQ(text, answer["choices"][0]["text"].get<std::string>());
  EXPECT_EQ(figures(path + "?since=7")["tokens"], Json({tokens[7], tokens[8]}));
}

TEST_F(DashboardServiceTest, OnlyWhoAsksForRoutingIsLookedAtUnlessAllAre) {
  start();
  load();
  const Json plain = complete("");
  const Json listed = latest_request();
  EXPECT_FALSE(listed["has_tokens"]);
  EXPECT_EQ(listed["generated_tokens"], 6);
  EXPECT_TRUE(figures("requests/" + listed["id"].get<std::string>())["tokens"].empty());
  TearDown();
  options_.dashboard->all_routing = true;
  start();
  load();
  const Json watched = complete("");
  EXPECT_EQ(watched["choices"], plain["choices"]) << "and nothing of it shows in the answer";
  EXPECT_EQ(latest_request()["n_tokens"], 9);
}

TEST_F(DashboardServiceTest, KeysSeeTheirOwnRequests) {
  options_.keys = ApiKeys::create({{.key = "key-of-alice"}, {.key = "key-of-bob-1"}}).value();
  start();
  load();
  EXPECT_EQ(status_of(ask("GET", "/dashboard", "")), 200) << "the page holds no data";
  for (const char* path : {"state", "series", "heat", "experts", "alarms", "requests", "requests/x"}) {
    EXPECT_EQ(status_of(get_figures(path)), 401) << path;
    EXPECT_EQ(status_of(get_figures(path, kAlice)), std::string(path) == "requests/x" ? 404 : 200) << path;
  }
  complete(R"(,"routing":true)", kAlice);
  const std::string path = "requests/" + latest_request(kAlice)["id"].get<std::string>();
  EXPECT_EQ(status_of(get_figures(path, kAlice)), 200);
  const std::string hidden = get_figures(path, kBob);
  EXPECT_EQ(status_of(hidden), 404);
  EXPECT_EQ(Json::parse(body_of(hidden))["error"]["code"], "request_not_found");
  EXPECT_TRUE(figures("requests", kBob)["requests"].empty());
}

TEST_F(DashboardServiceTest, AsksForWhatIsKnownOnly) {
  start();
  EXPECT_EQ(status_of(get_figures("state")), 503) << "no model yet";
  EXPECT_EQ(status_of(ask("GET", "/dashboard/", "")), 200);
  load();
  for (const char* path : {"state?x=1", "heat?tier=2s", "heat?from=5&to=4", "heat?from=-1", "series?since=x",
                           "series?from=1", "experts?tier=1s", "requests?since=1", "alarms?x"}) {
    const std::string answer = get_figures(path);
    EXPECT_EQ(status_of(answer), 400) << path;
    EXPECT_THAT(Json::parse(body_of(answer))["error"]["message"].get<std::string>(), HasSubstr("'")) << path;
  }
  EXPECT_EQ(status_of(ask("POST", "/api/v1/dashboard/heat", "", "{}")), 405);
  EXPECT_EQ(status_of(get_figures("nothing")), 404);
}

TEST_F(DashboardServiceTest, WhatHasNotChangedIsNotSentAgain) {
  start();
  load();
  complete("");
  count();
  for (const char* path : {"state", "series", "heat", "experts", "alarms", "requests"}) {
    if (std::string(path) == "requests") latest_request();
    const std::string first = get_figures(path);
    const size_t begin = first.find("ETag: ") + 6;
    const std::string known =
        "If-None-Match: " + first.substr(begin, first.find("\r\n", begin) - begin) + "\r\n";
    EXPECT_THAT(first, HasSubstr("Cache-Control: private, no-cache\r\n"));
    EXPECT_EQ(status_of(get_figures(path, known + "Connection: close\r\n")), 304) << path;
  }
}

TEST_F(DashboardServiceTest, SeriesHaveAColumnForEachWindow) {
  start();
  load();
  complete("");
  count();
  count();
  count();
  const Json series = figures("series?by_layer=true");
  const size_t n = series["begin"].size();
  EXPECT_EQ(n, 3U);
  for (const auto& [name, column] : series.items()) {
    if (column.is_array() && name != "layers") {
      EXPECT_EQ(column.size(), n) << name;
    }
  }
  EXPECT_EQ(series["generated_tokens"], Json({6, 0, 0}));
  EXPECT_EQ(series["complete"], Json({true, true, false}));
  EXPECT_GT(series["expert_calls"][0], 0);
  EXPECT_TRUE(series["entropy"][1].is_null());
  EXPECT_TRUE(series["cache_hits"][0].is_null()) << "all experts are in memory";
  EXPECT_TRUE(series["first_token_p50"][0].is_number());
  EXPECT_EQ(series["entropy_by_layer"][0].size(), series["layers"].size());
  const int64_t begin = series["begin"][1];
  EXPECT_EQ(figures("series?since=" + std::to_string(begin))["begin"].size(), 2U);
}

TEST_F(DashboardServiceTest, StateTellsOfTheModel) {
  start();
  load();
  const Json state = figures("state");
  EXPECT_EQ(state["version"], 1);
  EXPECT_EQ(state["model"]["id"], "mixtral");
  EXPECT_EQ(state["experts"]["per_layer"], loaded_->model->spec().router.n_experts);
  EXPECT_EQ(state["requests"]["routing"], "asked");
  EXPECT_EQ(state["tiers"].size(), 4U);
  EXPECT_EQ(state["exact"], true);
  EXPECT_EQ(state["half_life_seconds"], 60);
  EXPECT_THAT(ask("GET", "/metrics", ""), HasSubstr("soli_hot_expert_alarms{model_name=\"mixtral\"} 0\n"));
}

TEST_F(DashboardServiceTest, ThereMayBeNone) {
  options_.dashboard.reset();
  start();
  load();
  for (const char* path : {"/dashboard", "/dashboard/", "/api/v1/dashboard/state"})
    EXPECT_EQ(status_of(ask("GET", path, "")), 404) << path;
  EXPECT_EQ(ask("GET", "/metrics", "").find("soli_hot_expert"), std::string::npos);
}

}  // namespace
}  // namespace soli::serve
