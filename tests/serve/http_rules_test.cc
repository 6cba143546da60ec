#include "serve/http_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace soli::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

HttpRequest request_with(std::vector<HttpHeader> headers) {
  return {.method = "POST", .path = "", .query = "", .headers = std::move(headers)};
}

TEST(IsHostTest, TakesWhatIsWrittenAsAnAddressOrAName) {
  for (const char* host :
       {"127.0.0.1", "0.0.0.0", "::", "::1", "fe80::1%eth0", "localhost", "Models-1.example"})
    EXPECT_TRUE(is_host(host)) << host;
  for (const char* host :
       {"", "*", "999.1.1.1", "1.2.3", "8080", "[::1]", "127.0.0.1:80", ":::", "a b", "a/b", "\n"})
    EXPECT_FALSE(is_host(host)) << host;
  EXPECT_FALSE(is_host(std::string(256, 'a')));
}

TEST(HostPolicyTest, AddressesAndLocalhostNeedNobodysHelp) {
  const HostPolicy policy;
  for (const char* host :
       {"127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080", "localhost", "LOCALHOST:1", "192.168.1.7:80"})
    EXPECT_TRUE(policy.allows(host)) << host;
  for (const char* host :
       {"", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil", "localhost:80x",
        "localhost:123456", "[::1", "[::1]x", "user@localhost", "local host"})
    EXPECT_FALSE(policy.allows(host)) << host;
}

TEST(HostPolicyTest, NamedHostsAreAllowedWithAnyPort) {
  const HostPolicy policy{.any = false, .names = {"models.example"}};
  EXPECT_TRUE(policy.allows("Models.Example:443"));
  EXPECT_FALSE(policy.allows("other.example"));
  EXPECT_TRUE(HostPolicy({.any = true, .names = {}}).allows("other.example"));
  EXPECT_FALSE(HostPolicy({.any = true, .names = {}}).allows("oth er"));
}

TEST(TakeTargetTest, SplitsPathAndQuery) {
  const HostPolicy policy;
  HttpRequest request = request_with({{"host", "localhost"}});
  EXPECT_FALSE(take_target("/v1/models?a=1?b", policy, request));
  EXPECT_EQ(request.path, "/v1/models");
  EXPECT_EQ(request.query, "a=1?b");
  EXPECT_FALSE(take_target("http://127.0.0.1:80/health", policy, request));
  EXPECT_EQ(request.path, "/health");
  EXPECT_FALSE(take_target("HTTP://localhost", policy, request));
  EXPECT_EQ(request.path, "/");
}

TEST(TakeTargetTest, RefusesWhatIsNoPathOrNoNameOfThisServer) {
  const HostPolicy policy;
  HttpRequest request = request_with({{"host", "localhost"}});
  for (const char* target : {"v1", "ftp://localhost/", "*", "localhost:80", ""}) {
    const auto refusal = take_target(target, policy, request);
    ASSERT_TRUE(refusal) << target;
    EXPECT_EQ(refusal->status, 400) << target;
  }
  EXPECT_EQ(take_target("http://evil.example/", policy, request)->status, 421);
  HttpRequest foreign = request_with({{"host", "evil.example"}});
  EXPECT_EQ(take_target("/", policy, foreign)->status, 421);
  HttpRequest none = request_with({});
  EXPECT_EQ(take_target("/", policy, none)->status, 400);
  none.minor_version = 0;
  EXPECT_FALSE(take_target("/", policy, none));
  HttpRequest two = request_with({{"host", "localhost"}, {"host", "localhost"}});
  EXPECT_EQ(take_target("/", policy, two)->status, 400);
}

TEST(CheckHeadTest, TakesOnlyOneWayToEndABody) {
  const HttpLimits limits;
  EXPECT_FALSE(check_head(request_with({}), limits));
  EXPECT_FALSE(check_head(request_with({{"content-length", "12"}}), limits));
  EXPECT_FALSE(check_head(request_with({{"transfer-encoding", "Chunked"}}), limits));
  const auto status = [&](std::vector<HttpHeader> headers) {
    const auto refusal = check_head(request_with(std::move(headers)), limits);
    return refusal ? refusal->status : 0;
  };
  EXPECT_EQ(status({{"content-length", "1"}, {"content-length", "1"}}), 400);
  EXPECT_EQ(status({{"content-length", "1"}, {"transfer-encoding", "chunked"}}), 400);
  EXPECT_EQ(status({{"transfer-encoding", "chunked"}, {"transfer-encoding", "chunked"}}), 400);
  for (const char* length : {"", "-1", "+1", "1, 1", "0x10", "99999999999999999999"})
    EXPECT_EQ(status({{"content-length", length}}), 400) << length;
  for (const char* encoding : {"gzip", "gzip, chunked", "chunked, gzip", "xchunked", "identity", ""})
    EXPECT_EQ(status({{"transfer-encoding", encoding}}), 501) << encoding;
  EXPECT_EQ(status({{"expect", "200-ok"}}), 417);
  HttpRequest old = request_with({{"transfer-encoding", "chunked"}});
  old.minor_version = 0;
  EXPECT_EQ(check_head(old, limits)->status, 400);
}

TEST(CheckHeadTest, CountsFields) {
  HttpLimits limits;
  limits.max_header_fields = 2;
  HttpRequest request = request_with({{"a", ""}, {"b", ""}});
  EXPECT_FALSE(check_head(request, limits));
  request.headers.push_back({"c", ""});
  EXPECT_EQ(check_head(request, limits)->status, 431);
}

TEST(IsJsonTest, TakesJsonWithParameters) {
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8", "application/json ;x",
                           "application/vnd.api+json"})
    EXPECT_TRUE(is_json(type)) << type;
  for (const char* type :
       {"", "text/plain", "application/jsonp", "application/x-www-form-urlencoded", "text/json"})
    EXPECT_FALSE(is_json(type)) << type;
}

TEST(SerialiseHeadTest, KeepsValuesOnTheirLine) {
  HttpResponse response;
  response.headers = {{"X-Name", "a\r\nSet-Cookie: b"}};
  response.body = "12345";
  const std::string head = serialise_head(response, Framing::kLength, true, "req-1");
  EXPECT_THAT(head, HasSubstr("X-Name: a??Set-Cookie: b\r\n"));
  EXPECT_THAT(head, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(head, HasSubstr("X-Request-Id: req-1\r\n"));
  EXPECT_THAT(head, HasSubstr("Connection: keep-alive\r\n\r\n"));
}

TEST(SerialiseHeadTest, FramesByWhatIsAsked) {
  HttpResponse response;
  EXPECT_THAT(serialise_head(response, Framing::kChunked, false, ""),
              HasSubstr("Transfer-Encoding: chunked\r\n"));
  const std::string closing = serialise_head(response, Framing::kClose, false, "");
  EXPECT_THAT(closing, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(closing, Not(HasSubstr("Transfer-Encoding")));
  response.status = 204;
  EXPECT_THAT(serialise_head(response, Framing::kLength, true, ""), Not(HasSubstr("Content-Length")));
  EXPECT_EQ(as_chunk("0123456789abcdef"), "10\r\n0123456789abcdef\r\n");
}

}  // namespace
}  // namespace soli::serve
