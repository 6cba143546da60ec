// The service with a real engine on a small model, over real sockets.
#include "serve/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>

#include "format/tokenizer.h"
#include "model/parameters.h"
#include "serve/engine_host.h"
#include "serve/http_client.h"
#include "support/loaded_engine.h"

namespace soli::serve {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

std::string post(std::string_view path, std::string_view body, std::string_view more = "") {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         std::string(more) + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         std::string(body);
}

class ServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.model_id = "mixtral";
    options_.n_workers = 1;
  }

  void start() {
    service_ = std::make_unique<Service>(options_, nullptr);
    http_ = HttpServer::start({.n_threads = 2}, *service_).value();
    service_->set_server(http_.get());
  }

  /// `runs`: or nothing leaves the queue.
  void load(bool runs = true) {
    const std::string path = golden_folder() + "mixtral/model.gguf";
    EngineOptions engine;
    engine.max_sequences = 4;
    engine.max_queued = 8;
    engine.context_length = 50'000;  // so that long answers outlast their tests
    loaded_ = LoadedEngine::create(path, {.n_threads = 2}, engine).value();
    tokenizer_ = Tokenizer::from_gguf(loaded_.model->file().gguf()).value();
    parameters_ = count_parameters(loaded_.model->file());
    model_.id = "mixtral";
    model_.tokenizer = tokenizer_.get();
    model_.context_length = loaded_.engine->context_length();
    model_.spec = &loaded_.model->spec();
    model_.parameters = &parameters_;
    if (runs) host_ = std::make_unique<EngineHost>(*loaded_.engine);
    service_->set_backend({.engine = loaded_.engine.get(), .model = &model_, .figures = [this] {
                             ModelFigures figures;
                             figures.engine = loaded_.engine->counters();
                             return figures;
                           }});
  }

  void TearDown() override {
    if (http_ != nullptr) http_->stop();
    if (host_ != nullptr) host_->stop();
    if (service_ != nullptr) service_->stop();
  }

  std::string ask(const std::string& request) {
    TestClient client(http_->port());
    client.send(request);
    return client.read_answer();
  }

  /// Whether the counters come to be so within some time.
  template <typename Condition>
  bool wait_for(Condition condition) {
    for (int i = 0; i < 20'000; ++i) {
      if (condition(loaded_.engine->counters())) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  bool wait_until_nothing_runs() {
    return wait_for([](const EngineCounters& now) { return now.n_running + now.n_waiting == 0; });
  }
  bool wait_until_four_run() {
    return wait_for([](const EngineCounters& now) { return now.n_running == 4; });
  }

  ServiceOptions options_;
  LoadedEngine loaded_;
  std::unique_ptr<Tokenizer> tokenizer_;
  ParameterCounts parameters_;
  openai::ServedModel model_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<EngineHost> host_;
};

constexpr const char* kLong =
    R"({"prompt":[5,6,7],"max_tokens":100000,"temperature":0,"logit_bias":{"2":-100})";

TEST_F(ServiceTest, AnswersWhileTheModelIsLoaded) {
  start();
  service_->show_progress(0.25);
  EXPECT_EQ(body_of(ask(get("/health"))), R"({"status":"loading","progress":0.250})");
  EXPECT_EQ(status_of(ask(get("/ready"))), 503);
  EXPECT_EQ(status_of(ask(get("/v1/models"))), 503);
  const std::string refused = ask(post("/v1/completions", "{}"));
  EXPECT_EQ(status_of(refused), 503);
  EXPECT_THAT(refused, HasSubstr("Retry-After: "));
  EXPECT_EQ(status_of(ask(get("/metrics"))), 200);
  load();
  EXPECT_EQ(body_of(ask(get("/health"))), R"({"status":"ok"})");
  EXPECT_EQ(status_of(ask(get("/ready"))), 200);
  EXPECT_EQ(status_of(ask(get("/v1/models"))), 200);
}

TEST_F(ServiceTest, WholeAndStreamedAnswersAgree) {
  start();
  load();
  const std::string body = R"({"prompt":[5,6,7],"max_tokens":8,"temperature":0)";
  const Json whole = Json::parse(body_of(ask(post("/v1/completions", body + "}"))));
  TestClient client(http_->port());
  client.send(post("/v1/completions", body + R"(,"stream":true})", "Connection: close\r\n"));
  const std::string streamed = client.read_to_end();
  std::string text;
  for (size_t at = 0; (at = streamed.find("data: {", at)) != std::string::npos; at += 6) {
    const size_t end = streamed.find("\n\n", at);
    text += Json::parse(streamed.substr(at + 6, end - at - 6))["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, whole["choices"][0]["text"].get<std::string>());
  EXPECT_THAT(streamed, HasSubstr("data: [DONE]\n\n"));
}

TEST_F(ServiceTest, ChecksKeysBeforeBodies) {
  options_.keys = ApiKeys::create({{.key = "good-key-1"}}).value();
  start();
  load();
  EXPECT_EQ(status_of(ask(get("/health"))), 200);
  TestClient client(http_->port());
  client.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_EQ(status_of(client.read_answer()), 401);
  EXPECT_EQ(status_of(ask(post("/tokenize", R"({"content":"a"})", "Authorization: Bearer good-key-1\r\n"))),
            200);
}

TEST_F(ServiceTest, ClientsThatLeaveFreeTheirRows) {
  start();
  load();
  for (const char* end : {"}", R"(,"stream":true})"}) {
    std::vector<TestClient> clients;
    for (int i = 0; i < 6; ++i) {  // four run, two wait
      clients.emplace_back(http_->port());
      clients.back().send(post("/v1/completions", std::string(kLong) + end));
    }
    EXPECT_TRUE(wait_until_four_run());
    clients.clear();
    EXPECT_TRUE(wait_until_nothing_runs());
  }
  EXPECT_TRUE(service_->wait_until_idle(std::chrono::seconds(10)));
}

TEST_F(ServiceTest, AFullQueueIsToldSo) {
  start();
  load(false);
  std::vector<TestClient> clients;
  for (int i = 0; i < 12; ++i) {  // four for whom there is a place, and eight that wait
    clients.emplace_back(http_->port());
    clients.back().send(post("/v1/completions", std::string(kLong) + "}"));
  }
  EXPECT_TRUE(wait_for([](const EngineCounters& now) { return now.n_waiting == 12; }));
  const std::string refused = ask(post("/v1/completions", R"({"prompt":"a","max_tokens":1})"));
  EXPECT_EQ(status_of(refused), 429);
  EXPECT_THAT(refused, HasSubstr("Retry-After: "));
  const std::string never = ask(post("/v1/completions", R"({"prompt":"a","n":13,"max_tokens":1})"));
  EXPECT_EQ(status_of(never), 400);
  EXPECT_THAT(never,
              HasSubstr("13 texts at once are more than there is ever room for: 4 may run and 8 wait"));
  clients.clear();
  host_ = std::make_unique<EngineHost>(*loaded_.engine);
  EXPECT_TRUE(wait_until_nothing_runs());
}

TEST_F(ServiceTest, DrainsAndRefusesNewWork) {
  start();
  load();
  TestClient client(http_->port(), 4096);
  client.send(post("/v1/completions", R"({"prompt":[5,6,7],"max_tokens":20,"stream":true})"));
  client.read_until("data: ");
  service_->begin_drain();
  http_->drain();
  EXPECT_EQ(status_of(ask(get("/ready"))), 503);
  EXPECT_EQ(status_of(ask(post("/v1/completions", R"({"prompt":"a"})"))), 503);
  EXPECT_THAT(client.read_to_end(), HasSubstr("data: [DONE]"));
  EXPECT_TRUE(service_->wait_until_idle(std::chrono::seconds(10)));
  EXPECT_EQ(service_->n_active(), 0);
}

TEST_F(ServiceTest, WhoIsCutOffIsToldSo) {
  start();
  load();
  TestClient streamed(http_->port());
  streamed.send(post("/v1/completions", std::string(kLong) + R"(,"n":4,"stream":true})"));
  streamed.read_until("data: ");
  TestClient whole(http_->port());
  whole.send(post("/v1/completions", std::string(kLong) + "}"));
  EXPECT_TRUE(wait_for([](const EngineCounters& now) { return now.n_running + now.n_waiting == 5; }));
  service_->begin_drain();
  http_->cut_off();
  const std::string error =
      R"({"error":{"message":"the server ended before the request did","type":"server_error",)"
      R"("param":null,"code":"shutting_down"}})";
  EXPECT_THAT(streamed.read_to_end(), ::testing::EndsWith("data: " + error + "\n\n\r\n0\r\n\r\n"));
  const std::string answer = whole.read_answer();
  EXPECT_EQ(status_of(answer), 503);
  EXPECT_EQ(body_of(answer), error);
  EXPECT_TRUE(service_->wait_until_idle(std::chrono::seconds(10)));
  EXPECT_TRUE(wait_until_nothing_runs());
}

TEST_F(ServiceTest, APromptCountsOnceAsInTheUsage) {
  start();
  load();
  int64_t n_prompt = 0;
  for (const char* body :
       {R"({"prompt":[5,6,7],"n":3,"max_tokens":2})", R"({"prompt":[[5,6],[7]],"max_tokens":2})",
        R"({"prompt":[5,6,7],"max_tokens":0})"}) {
    n_prompt +=
        Json::parse(body_of(ask(post("/v1/completions", body))))["usage"]["prompt_tokens"].get<int64_t>();
  }
  n_prompt +=
      Json::parse(body_of(ask(post("/v1/embeddings", R"({"input":[[5,6],[7]]})"))))["usage"]["prompt_tokens"]
          .get<int64_t>();
  EXPECT_EQ(n_prompt, 12);
  EXPECT_THAT(ask(get("/metrics")), HasSubstr("soli_prompt_tokens_total{model_name=\"mixtral\"} 12\n"));
}

TEST_F(ServiceTest, ABodyThatIsTooLargeHasACode) {
  start();
  const std::string answer =
      ask("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8388609\r\n\r\n");
  EXPECT_EQ(status_of(answer), 413);
  EXPECT_EQ(Json::parse(body_of(answer))["error"]["code"], "body_too_large");
}

TEST_F(ServiceTest, ManyClientsSomeOfWhomLeave) {
  start();
  load();
  std::atomic<int> n_right = 0;
  const std::string body = R"({"prompt":[5,6,7],"max_tokens":12,"temperature":0)";
  const std::string expected =
      Json::parse(body_of(ask(post("/v1/completions", body + "}"))))["choices"].dump();
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 12; ++i) {
        TestClient client(http_->port());
        if ((i + t) % 3 == 0) {  // leaves at once, or in the middle
          client.send(
              post("/v1/completions", std::string(kLong) + (i % 2 == 0 ? "}" : R"(,"stream":true})")));
          if (i % 2 == 1) client.read(300);
          continue;
        }
        client.send(post("/v1/completions", body + "}"));
        const Json answer = Json::parse(body_of(client.read_answer()), nullptr, false);
        if (answer.is_object() && answer["choices"].dump() == expected) ++n_right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_right, 24);
  EXPECT_TRUE(wait_until_nothing_runs());
  EXPECT_EQ(status_of(ask(get("/metrics"))), 200);
}

TEST_F(ServiceTest, EndsInTheMiddleOfWork) {
  start();
  load();
  std::vector<TestClient> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back(http_->port());
    clients.back().send(
        post("/v1/completions", std::string(kLong) + (i % 2 == 0 ? "}" : R"(,"stream":true})")));
  }
  EXPECT_TRUE(wait_until_four_run());
  http_->stop();
  host_->stop();
  service_->stop();
  EXPECT_EQ(service_->n_active(), 0);
  EXPECT_TRUE(wait_until_nothing_runs());
}

}  // namespace
}  // namespace soli::serve
