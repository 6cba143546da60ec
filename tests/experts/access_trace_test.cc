#include "experts/access_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/rng.h"
#include "io/file.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

AccessTrace small_trace() {
  AccessTrace trace(300, 700);
  trace.record({.layer = 299, .n_tokens = 1, .experts = {{0, 5, 699}}, .calls = {{1, 1, 1}}});
  trace.record({.layer = 0, .n_tokens = 512, .experts = {{1, 2, 300}}, .calls = {{512, 1, 200}}});
  trace.record({.layer = 7, .n_tokens = 3});
  return trace;
}

void expect_same(const AccessTrace& a, const AccessTrace& b) {
  EXPECT_EQ(a.n_layers(), b.n_layers());
  EXPECT_EQ(a.n_experts(), b.n_experts());
  EXPECT_EQ(a.n_visits(), b.n_visits());
  EXPECT_EQ(a.n_dropped(), b.n_dropped());
  AccessTrace::Reader left(a), right(b);
  for (int64_t i = 0; i < a.n_visits(); ++i) {
    const LayerVisit *x = left.next(), *y = right.next();
    ASSERT_TRUE(x != nullptr && y != nullptr);
    EXPECT_EQ(x->layer, y->layer);
    EXPECT_EQ(x->n_tokens, y->n_tokens);
    EXPECT_TRUE(std::equal(x->experts.begin(), x->experts.end(), y->experts.begin(), y->experts.end()));
    EXPECT_TRUE(std::equal(x->calls.begin(), x->calls.end(), y->calls.begin(), y->calls.end()));
  }
  EXPECT_EQ(left.next(), nullptr);
  EXPECT_EQ(right.next(), nullptr);
}

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

std::vector<std::byte> saved(const AccessTrace& trace) {
  const TemporaryFolder folder;
  EXPECT_TRUE(trace.save(folder / "trace"));
  return bytes_of(read_file(folder / "trace", AccessTrace::kMaxBytes).value());
}

std::string error_of(const std::vector<std::byte>& bytes) {
  const auto trace = AccessTrace::parse(bytes, "some.trace");
  return trace ? "" : trace.error().message;
}

TEST(AccessTrace, GivesBackWhatWasRecorded) {
  const AccessTrace trace = small_trace();
  AccessTrace::Reader reader(trace);
  const LayerVisit* visit = reader.next();
  EXPECT_EQ(visit->layer, 299);
  EXPECT_THAT(visit->experts, testing::ElementsAre(0, 5, 699));
  EXPECT_THAT(visit->calls, testing::ElementsAre(1, 1, 1));
  visit = reader.next();
  EXPECT_EQ(visit->n_tokens, 512);
  EXPECT_THAT(visit->experts, testing::ElementsAre(1, 2, 300));
  EXPECT_THAT(visit->calls, testing::ElementsAre(512, 1, 200));
  visit = reader.next();
  EXPECT_EQ(visit->layer, 7);
  EXPECT_TRUE(visit->experts.empty());
  EXPECT_EQ(reader.next(), nullptr);
}

TEST(AccessTrace, IsTheSameFromAFile) {
  const TemporaryFolder folder;
  const AccessTrace trace = small_trace();
  ASSERT_TRUE(trace.save(folder / "trace"));
  const auto loaded = AccessTrace::load(folder / "trace");
  ASSERT_TRUE(loaded) << loaded.error().message;
  expect_same(trace, *loaded);
}

TEST(AccessTrace, CountsWhatComesAfterTheLimit) {
  AccessTrace trace(4, 8, 20);
  for (int i = 0; i < 10; ++i)
    trace.record({.layer = i % 4, .n_tokens = 1, .experts = {{2, 3}}, .calls = {{1, 1}}});
  EXPECT_EQ(trace.n_visits(), 5);  // of four bytes
  EXPECT_EQ(trace.n_dropped(), 5);
  EXPECT_EQ(trace.bytes(), 20);
  const auto again = AccessTrace::parse(saved(trace), "some.trace");
  ASSERT_TRUE(again);
  expect_same(trace, *again);
}

TEST(AccessTrace, IsNotTakenUpAgainAfterAGap) {
  AccessTrace trace(1, 8, 5);
  trace.record({.layer = 0, .n_tokens = 9, .experts = {{2, 3}}, .calls = {{1, 1}}});  // six bytes
  trace.record({.layer = 0, .n_tokens = 1, .experts = {{2, 3}}, .calls = {{1, 1}}});  // four
  EXPECT_EQ(trace.n_visits(), 0);
  EXPECT_EQ(trace.n_dropped(), 2);
}

TEST(AccessTrace, NamesAMissingFile) {
  const auto trace = AccessTrace::load("/no/such/file");
  ASSERT_FALSE(trace);
  EXPECT_EQ(trace.error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(trace.error().message, HasSubstr("/no/such/file"));
}

// Where the numbers of the head begin.
constexpr size_t kVersion = 10, kLayers = 18, kExperts = 26, kVisits = 34, kDropped = 42, kBytes = 50,
                 kFirstVisit = 58;

TEST(AccessTrace, RefusesAHeadThatLies) {
  const std::vector<std::byte> good = saved(small_trace());
  const auto with = [&](size_t at, int64_t number) {
    std::vector<std::byte> bad = good;
    std::memcpy(bad.data() + at, &number, sizeof number);
    return error_of(bad);
  };
  EXPECT_EQ(with(kVersion, 1), "");
  EXPECT_EQ(with(kVersion, 2), "some.trace: is a trace of version 2; 1 is read here");
  EXPECT_THAT(with(kLayers, 0),
              AllOf(HasSubstr("some.trace: number of layers is 0"), HasSubstr("1 to 4096")));
  EXPECT_THAT(with(kLayers, -1), HasSubstr("number of layers is -1"));
  EXPECT_THAT(with(kLayers, 7), HasSubstr("visit 0 at byte 58: layer"));
  EXPECT_THAT(with(kExperts, int64_t{1} << 40), HasSubstr("number of experts"));
  EXPECT_THAT(with(kExperts, 65536), HasSubstr("experts of all layers"));
  EXPECT_THAT(with(kVisits, 2), HasSubstr("some.trace: has 3 visits where 2 are announced"));
  EXPECT_THAT(with(kVisits, int64_t{1} << 62), HasSubstr("number of visits"));
  EXPECT_THAT(with(kDropped, -5), HasSubstr("number of dropped visits is -5"));
  EXPECT_THAT(with(kBytes, 1000), HasSubstr("where 1000 are announced"));
}

TEST(AccessTrace, RefusesVisitsThatCannotBe) {
  const std::vector<std::byte> good = saved(small_trace());
  const auto with = [&](size_t at, int byte) {
    std::vector<std::byte> bad = good;
    bad[kFirstVisit + at] = static_cast<std::byte>(byte);
    return error_of(bad);
  };
  // The first visit: 2 * 299 + 1 in two bytes, 3 experts, 0, 4, 693 in two bytes.
  EXPECT_THAT(with(1, 0x7f), HasSubstr("visit 0 at byte 58: layer is"));
  EXPECT_THAT(with(6, 0x0b), HasSubstr("visit 0 at byte 58: expert is"));
  // The second: 0, 512 in two bytes, 3 experts, 1, 0, 297 in two, calls 512 in two, 1, 200 in two.
  EXPECT_THAT(with(7 + 9, 5), HasSubstr("visit 1 at byte 65: calls is 640; 1 to 512 is allowed"));
  EXPECT_THAT(with(7 + 10, 0), HasSubstr("visit 1 at byte 65: calls is 0"));
  std::vector<std::byte> endless = good;
  std::fill(endless.begin() + kFirstVisit, endless.end(), std::byte{0xff});
  EXPECT_THAT(error_of(endless), HasSubstr("more than 35 bits"));
}

TEST(AccessTrace, RefusesAFileThatIsCutAnywhere) {
  const std::vector<std::byte> good = saved(small_trace());
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_THAT(error_of({good.begin(), good.begin() + static_cast<ptrdiff_t>(size)}),
                HasSubstr("some.trace: "));
}

TEST(AccessTrace, ReadsOrRefusesAnyByteChanged) {
  const std::vector<std::byte> good = saved(small_trace());
  Rng rng(12);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes = good;
    bytes[rng.next_below(bytes.size())] = static_cast<std::byte>(rng.next_below(256));
    const auto trace = AccessTrace::parse(bytes, "some.trace");
    if (!trace) continue;
    AccessTrace::Reader reader(*trace);
    int64_t n = 0;
    while (reader.next() != nullptr) ++n;
    EXPECT_EQ(n, trace->n_visits());
  }
}

}  // namespace
}  // namespace soli
