#include "serve/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "serve/fake_handler.h"
#include "serve/http_client.h"

namespace soli::serve {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HttpServerTest : public ::testing::Test {
 protected:
  void start() {
    auto started = HttpServer::start(options, handler);
    ASSERT_TRUE(started) << started.error().message;
    server = *std::move(started);
  }
  void TearDown() override {
    if (server != nullptr) server->stop();
  }
  TestClient connect(int receive_bytes = 0) { return TestClient(server->port(), receive_bytes); }
  /// The whole answer to what one client says, up to the end of the connection.
  std::string say(std::string_view text) {
    TestClient client = connect();
    client.send(text);
    return client.read_to_end();
  }
  int status(std::string_view text) { return status_of(say(text)); }

  HttpServerOptions options;
  FakeHandler handler;
  std::unique_ptr<HttpServer> server;
};

std::string echo_post(std::string_view path, std::string_view body, std::string_view more = "") {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(more) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

TEST_F(HttpServerTest, AnswersOneAfterAnotherOnOneConnection) {
  start();
  TestClient client = connect();
  for (int i = 0; i < 3; ++i) {
    client.send(echo_post("/echo", "body " + std::to_string(i)));
    const std::string answer = client.read_answer();
    EXPECT_EQ(status_of(answer), 200);
    EXPECT_EQ(body_of(answer), "body " + std::to_string(i));
  }
  const HttpRecord record = handler.wait_for_record(2);
  EXPECT_EQ(record.method, "POST");
  EXPECT_EQ(record.path, "/echo");
  EXPECT_EQ(record.status, 200);
  EXPECT_EQ(record.bytes_in, 6);
  EXPECT_GT(record.bytes_out, 6);
  EXPECT_THAT(record.peer, StartsWith("127.0.0.1:"));
  EXPECT_FALSE(record.abandoned);
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInTheirOrder) {
  start();
  TestClient client = connect();
  client.send(echo_post("/later", "first") + get("/second?x") + echo_post("/echo", "third"));
  EXPECT_EQ(body_of(client.read_answer()), "first");
  EXPECT_EQ(body_of(client.read_answer()), "/second?x");
  EXPECT_EQ(body_of(client.read_answer()), "third");
}

TEST_F(HttpServerTest, TakesAHeadByteByByte) {
  start();
  TestClient client = connect();
  for (const char c : echo_post("/echo", "slow")) client.send(std::string(1, c));
  EXPECT_EQ(body_of(client.read_answer()), "slow");
}

TEST_F(HttpServerTest, TakesChunkedBodies) {
  start();
  const std::string head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  TestClient client = connect();
  client.send(head + "3\r\nabc\r\n2;name=value\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n");
  EXPECT_EQ(body_of(client.read_answer()), "abcde");
  client.send(head + "0\r\n\r\n");
  EXPECT_EQ(body_of(client.read_answer()), "/echo?");
  client.send(head + "zz\r\nabc\r\n");
  EXPECT_EQ(status_of(client.read_to_end()), 400);
}

TEST_F(HttpServerTest, GivesHeadWithoutBody) {
  start();
  TestClient client = connect();
  client.send("HEAD /path HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Length: 6\r\n"));
  client.send(get("/next"));
  EXPECT_EQ(body_of(client.read_answer()), "/next?");
}

TEST_F(HttpServerTest, SpeaksHttp10) {
  start();
  EXPECT_THAT(say("GET /a HTTP/1.0\r\n\r\n"), EndsWith("/a?"));
  TestClient client = connect();
  client.send("GET /feed HTTP/1.0\r\n\r\n");
  const auto feed = handler.wait_for_feed();
  feed->push("one");
  feed->push("two", true);
  const std::string answer = client.read_to_end();
  EXPECT_THAT(answer, Not(HasSubstr("chunked")));
  EXPECT_EQ(body_of(answer), "onetwo");
}

TEST_F(HttpServerTest, AsksForTheBodyWhereThatIsExpected) {
  start();
  TestClient client = connect();
  client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("body");
  EXPECT_EQ(body_of(client.read_answer()), "body");
  // Refused by its head: the body is not asked for.
  client.send(
      "POST /refuse HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  EXPECT_EQ(status_of(client.read_to_end()), 401);
}

TEST_F(HttpServerTest, RefusesWhatBreaksTheRules) {
  start();
  EXPECT_EQ(status("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), 421);
  EXPECT_EQ(status("GET / HTTP/2.0\r\nHost: localhost\r\n\r\n"), 505);
  EXPECT_EQ(status("\x16\x03\x01 hello\r\n\r\n"), 400);
  EXPECT_EQ(status("GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n"), 505);
  EXPECT_EQ(status("GET / HTTP/1.1\nHost: localhost\n\n\r\n\r\n"), 505);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: localhost\r\nX : a\r\n\r\n"), 400);
  EXPECT_EQ(status(std::string("GET / HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n", 43)), 400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
            400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: "
                   "chunked\r\n\r\n0\r\n\r\n"),
            400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            501);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(status(echo_post("/echo", "x", "Expect: miracles\r\n")), 417);
  EXPECT_EQ(server->counters().bodies_bytes, 0);
}

TEST_F(HttpServerTest, LimitsHeads) {
  options.limits.max_header_bytes = 2048;
  options.limits.max_target_bytes = 512;
  options.limits.max_header_fields = 20;
  start();
  const std::string head = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  EXPECT_EQ(status("GET /" + std::string(600, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n"), 414);
  EXPECT_EQ(status("GET /" + std::string(1 << 20, 'a')), 414);
  EXPECT_EQ(status(head + "X: " + std::string(1 << 20, 'a')), 431);
  std::string many = head;
  for (int i = 0; i < 30; ++i) many += "X: a\r\n";
  EXPECT_EQ(status(many + "\r\n"), 431);
  for (int i = 0; i < 10'000; ++i) many += "X: a\r\n";
  EXPECT_EQ(status(many + "\r\n"), 431);
}

TEST_F(HttpServerTest, LimitsBodies) {
  options.limits.max_body_bytes = 1000;
  options.limits.max_bodies_bytes = 1500;
  start();
  EXPECT_EQ(status(echo_post("/echo", std::string(1001, 'a'))), 413);
  EXPECT_EQ(status("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n"), 413);
  std::string chunked = "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(status(chunked + "fffffffffffffff\r\n" + std::string(2000, 'a')), 413);
  for (int i = 0; i < 200; ++i) chunked += "a\r\n0123456789\r\n";
  EXPECT_EQ(status(chunked + "0\r\n\r\n"), 413);
  EXPECT_EQ(server->counters().bodies_bytes, 0);
  // Bodies of requests that are kept count until they are let go.
  TestClient first = connect();
  first.send(echo_post("/keep", std::string(1000, 'a')));
  const auto kept = handler.wait_for_kept();
  EXPECT_EQ(server->counters().bodies_bytes, 1000);
  const std::string refused = say(echo_post("/echo", std::string(1000, 'a')));
  EXPECT_EQ(status_of(refused), 503);
  EXPECT_THAT(refused, HasSubstr("Retry-After: "));
  handler.forget_kept();
  kept->respond({});
  EXPECT_EQ(status_of(first.read_answer()), 200);
  EXPECT_EQ(server->counters().bodies_bytes, 0);
}

TEST_F(HttpServerTest, LimitsConnections) {
  options.limits.max_connections = 2;
  start();
  TestClient first = connect();
  TestClient second = connect();
  for (TestClient* client : {&first, &second}) {
    client->send(get("/"));
    EXPECT_EQ(status_of(client->read_answer()), 200);
  }
  const std::string refused = say(get("/"));
  EXPECT_EQ(status_of(refused), 503);
  EXPECT_THAT(refused, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_GE(server->counters().connections_refused, 1);
  second.leave();
  while (server->counters().connections > 1) std::this_thread::yield();
  TestClient third = connect();
  third.send(get("/"));
  EXPECT_EQ(status_of(third.read_answer()), 200);
}

TEST_F(HttpServerTest, LimitsTime) {
  options.limits.header_time = std::chrono::milliseconds(50);
  options.limits.body_time = std::chrono::milliseconds(50);
  options.limits.idle_time = std::chrono::milliseconds(50);
  options.limits.request_time = std::chrono::milliseconds(50);
  start();
  EXPECT_EQ(say(""), "");
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: loc"), 408);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc"), 408);
  TestClient client = connect();
  client.send(get("/"));
  EXPECT_EQ(status_of(client.read_answer()), 200);
  EXPECT_TRUE(client.is_closed_within(5000));
  EXPECT_EQ(status(get("/keep")), 504);
  EXPECT_TRUE(handler.wait_for_abandoned(1));
}

TEST_F(HttpServerTest, SendsASourceInChunksAsItComes) {
  start();
  TestClient client = connect();
  client.send(get("/feed"));
  const auto feed = handler.wait_for_feed();
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  feed->push("hello");
  EXPECT_EQ(client.read(10), "5\r\nhello\r\n");
  feed->push("world", true);
  EXPECT_EQ(client.read(15), "5\r\nworld\r\n0\r\n\r\n");
  client.send(get("/again"));
  EXPECT_EQ(body_of(client.read_answer()), "/again?");
  EXPECT_TRUE(feed->is_destroyed());
}

TEST_F(HttpServerTest, SaysThatASilentSourceLives) {
  options.limits.keep_alive_time = std::chrono::milliseconds(20);
  start();
  TestClient client = connect();
  client.send(get("/feed"));
  const auto feed = handler.wait_for_feed();
  client.read_until("\r\n\r\n");
  EXPECT_EQ(client.read(16), "3\r\n:\n\n\r\n3\r\n:\n\n\r\n");
  feed->push("", true);
  EXPECT_THAT(client.read_until("0\r\n\r\n"), EndsWith("0\r\n\r\n"));
}

TEST_F(HttpServerTest, StopsASourceWhoseClientDoesNotRead) {
  options.limits.write_time = std::chrono::milliseconds(300);
  start();
  TestClient slow = connect(4096);
  slow.send(get("/feed"));
  const auto feed = handler.wait_for_feed();
  for (int i = 0; i < 100; ++i) feed->push(std::string(16 << 10, 'a'));
  // Another one is served meanwhile.
  TestClient other = connect();
  other.send(get("/other"));
  EXPECT_EQ(body_of(other.read_answer()), "/other?");
  const HttpRecord record = handler.wait_for_record(1);
  EXPECT_TRUE(record.abandoned);
  EXPECT_GT(record.write_seconds, 0);
  EXPECT_TRUE(feed->is_destroyed());
  EXPECT_GT(feed->n_waiting(), 50U);
}

TEST_F(HttpServerTest, NoticesThatAClientHasLeft) {
  start();
  TestClient ending = connect();
  ending.send(get("/keep"));
  handler.wait_for_kept(0);
  ending.leave();
  EXPECT_TRUE(handler.wait_for_abandoned(1));
  TestClient breaking = connect();
  breaking.send(get("/keep"));
  handler.wait_for_kept(1);
  breaking.break_off();
  EXPECT_TRUE(handler.wait_for_abandoned(2));
  // Also behind a request that waits.
  TestClient pipelining = connect();
  pipelining.send(get("/keep") + get("/next"));
  handler.wait_for_kept(2);
  pipelining.leave();
  EXPECT_TRUE(handler.wait_for_abandoned(3));
  for (const size_t i : {0, 1, 2}) {
    EXPECT_TRUE(handler.wait_for_kept(i)->is_abandoned());
    EXPECT_TRUE(handler.wait_for_record(i).abandoned);
  }
}

TEST_F(HttpServerTest, DestroysTheSourceOfAClientThatHasLeft) {
  start();
  TestClient client = connect();
  client.send(get("/feed"));
  const auto feed = handler.wait_for_feed();
  client.read_until("\r\n\r\n");
  client.leave();
  EXPECT_TRUE(handler.wait_for_record().abandoned);
  EXPECT_TRUE(feed->is_destroyed());
}

TEST_F(HttpServerTest, HearsOfAnAbandonedRequestAlsoAfterwards) {
  start();
  TestClient client = connect();
  client.send(get("/keep"));
  const auto kept = handler.wait_for_kept();
  client.leave();
  ASSERT_TRUE(handler.wait_for_abandoned(1));
  std::atomic<bool> heard = false;
  kept->set_on_abandoned([&] { heard = true; });
  while (!heard) std::this_thread::yield();
  kept->respond({.body = "too late"});
}

TEST_F(HttpServerTest, AnswersForAHandlerThatDoesNot) {
  start();
  TestClient client = connect();
  client.send(get("/drop"));
  EXPECT_EQ(status_of(client.read_answer()), 500);
}

TEST_F(HttpServerTest, ARefusedBodyEndsTheConnection) {
  start();
  const std::string answer = say(echo_post("/refuse", std::string(100'000, 'a')) + get("/smuggled"));
  EXPECT_EQ(status_of(answer), 401);
  EXPECT_THAT(answer, Not(HasSubstr("/smuggled")));
}

TEST_F(HttpServerTest, DrainsIdleConnectionsAndFinishesTheOthers) {
  start();
  TestClient idle = connect();
  idle.send(get("/"));
  idle.read_answer();
  TestClient busy = connect();
  busy.send(get("/keep"));
  const auto kept = handler.wait_for_kept();
  server->drain();
  EXPECT_TRUE(idle.is_closed_within(5000));
  const std::string late = say(get("/late"));
  EXPECT_EQ(status_of(late), 200);
  EXPECT_THAT(late, HasSubstr("Connection: close\r\n"));
  kept->respond({.body = "done"});
  EXPECT_THAT(busy.read_to_end(), EndsWith("done"));
}

TEST_F(HttpServerTest, SaysGoodbyeToThoseThatItCutsOff) {
  start();
  TestClient kept = connect();
  kept.send(get("/keep"));
  const auto responder = handler.wait_for_kept();
  TestClient fed = connect();
  fed.send(get("/feed"));
  handler.wait_for_feed()->push("one");
  fed.read_until("one\r\n");
  server->cut_off();
  EXPECT_THAT(fed.read_to_end(), testing::StrEq("a\r\nlast words\r\n0\r\n\r\n"));
  const std::string answer = kept.read_to_end();
  EXPECT_EQ(status_of(answer), 503);
  EXPECT_THAT(answer, EndsWith("farewell"));
  EXPECT_TRUE(responder->is_abandoned());
  for (size_t i = 0; i < 2; ++i) {
    const HttpRecord record = handler.wait_for_record(i);
    EXPECT_TRUE(record.cut_off) << record.path;
    EXPECT_FALSE(record.abandoned) << record.path;
  }
}

TEST_F(HttpServerTest, StopsAtOnce) {
  start();
  TestClient kept = connect();
  kept.send(get("/keep"));
  const auto responder = handler.wait_for_kept();
  TestClient fed = connect();
  fed.send(get("/feed"));
  const auto feed = handler.wait_for_feed();
  TestClient idle = connect();
  server->stop();
  for (TestClient* client : {&kept, &fed, &idle})
    EXPECT_TRUE(client->is_closed_within(5000) || !client->read_to_end().empty());
  EXPECT_TRUE(feed->is_destroyed());
  EXPECT_TRUE(responder->is_abandoned());
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(handler.wait_for_record(i).cut_off);
    EXPECT_FALSE(handler.wait_for_record(i).abandoned) << "it was not the client who left";
  }
  responder->respond({});
  feed->push("nobody listens", true);
}

TEST_F(HttpServerTest, ManyClientsAtOnce) {
  options.n_threads = 2;
  start();
  std::vector<std::thread> threads;
  std::atomic<int> n_right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        TestClient client = connect();
        const std::string body = std::to_string(t * 1000 + i);
        client.send(echo_post(i % 2 == 0 ? "/later" : "/echo", body));
        if (body_of(client.read_answer()) == body) ++n_right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_right, 80);
}

TEST_F(HttpServerTest, ListensOnWhatItIsTold) {
  start();
  ASSERT_EQ(server->addresses().size(), 1U);
  EXPECT_EQ(server->addresses()[0], "127.0.0.1:" + std::to_string(server->port()));
  HttpServerOptions taken;
  taken.port = server->port();
  const auto second = HttpServer::start(taken, handler);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("cannot listen on 127.0.0.1:"));
  HttpServerOptions nowhere;
  nowhere.host = "no-such-host.invalid";
  const auto third = HttpServer::start(nowhere, handler);
  ASSERT_FALSE(third);
  EXPECT_THAT(third.error().message, HasSubstr("--host no-such-host.invalid"));
  EXPECT_EQ(check_host("no-such-host.invalid").error().message, third.error().message);
  EXPECT_TRUE(check_host("127.0.0.1"));
  nowhere.host = "*";
  EXPECT_THAT(HttpServer::start(nowhere, handler).error().message,
              HasSubstr("--host '*': a name or an address"));
}

}  // namespace
}  // namespace soli::serve
