#include "base/result.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/rng.h"

namespace soli {
namespace {

Result<std::unique_ptr<int>> parse(const std::string& text) {
  if (text.empty()) return fail(ErrorKind::kMalformed, "text '{}' is empty", text);
  return std::make_unique<int>(static_cast<int>(text.size()));
}

Result<int> sum_of(const std::string& a, const std::string& b) {
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<int> first, parse(a));
  SOLI_ASSIGN_OR_RETURN(const std::unique_ptr<int> second, parse(b));
  return *first + *second;
}

Status check_sum(const std::string& a, const std::string& b, int* n_after) {
  SOLI_RETURN_IF_ERROR(sum_of(a, b));
  ++*n_after;
  return {};
}

TEST(Result, MacrosMoveValuesAndPassErrorsOn) {
  EXPECT_EQ(sum_of("ab", "cde").value(), 5);
  int n_after = 0;
  EXPECT_TRUE(check_sum("a", "b", &n_after));
  const Status status = check_sum("a", "", &n_after);
  ASSERT_FALSE(status);
  EXPECT_EQ(n_after, 1);
  EXPECT_EQ(status.error().kind, ErrorKind::kMalformed);
  EXPECT_EQ(status.error().message, "text '' is empty");
}

TEST(Result, ContextComesBeforeTheMessage) {
  const Status status = in_context("model.gguf", Error{ErrorKind::kLimit, "too long"});
  EXPECT_EQ(status.error().message, "model.gguf: too long");
  EXPECT_EQ(status.error().kind, ErrorKind::kLimit);
}

TEST(Log, RefusesAnUnknownLevelAndSaysWhatIsAllowed) {
  const Status status = init_log("loud");
  ASSERT_FALSE(status);
  EXPECT_NE(status.error().message.find("'loud'"), std::string::npos);
  EXPECT_NE(status.error().message.find("trace, debug, info, warn, error, off"), std::string::npos);
}

TEST(Rng, IsSplitMix64) {
  Rng rng(0);  // The first outputs of Vigna's reference implementation for seed 0.
  EXPECT_EQ(rng.next_u64(), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(rng.next_u64(), 0x6e789e6aa1b965f4ULL);
  EXPECT_EQ(rng.next_u64(), 0x06c45d188009454fULL);
}

TEST(Rng, UniformNumbersStayInTheirRangeAndFillIt) {
  Rng rng(7);
  std::array<int, 10> n_calls{};
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double unit = rng.next_unit();
    ASSERT_GE(unit, 0.0);
    ASSERT_LT(unit, 1.0);
    sum += unit;
    const uint64_t below = rng.next_below(10);
    ASSERT_LT(below, 10U);
    ++n_calls[below];
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);
  for (const int n : n_calls) EXPECT_NEAR(n, 10'000, 500);
  EXPECT_EQ(rng.next_below(1), 0U);
}

}  // namespace
}  // namespace soli
