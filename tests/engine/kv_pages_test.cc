#include "engine/kv_pages.h"

#include <gtest/gtest.h>

namespace soli {
namespace {

TEST(KvPages, AreAllocatedLazilyAndGivenBack) {
  Budget budget;
  KvPagePool pool(budget, {.kv_bytes = 4096});
  {
    KvPageTable table(pool);
    EXPECT_EQ(pool.n_pages(), 0);
    ASSERT_TRUE(table.reserve(1));
    EXPECT_EQ(table.pages().size(), 1U);
    ASSERT_TRUE(table.reserve(kKvPagePositions));
    EXPECT_EQ(table.pages().size(), 1U);
    ASSERT_TRUE(table.reserve(2 * kKvPagePositions + 1));
    EXPECT_EQ(table.pages().size(), 3U);
    EXPECT_EQ(budget.used_by_name().at("kv pages"), 3 * 4096);
    table.truncate(kKvPagePositions + 1);
    EXPECT_EQ(table.pages().size(), 2U);
    table.truncate(kKvPagePositions);
    EXPECT_EQ(table.pages().size(), 1U);
    EXPECT_EQ(pool.n_pages_in_use(), 1);
  }
  EXPECT_EQ(pool.n_pages_in_use(), 0) << "a table gives its pages back";
  EXPECT_EQ(pool.n_pages(), 3) << "the pool keeps them for the next";
}

TEST(KvPages, AMovedTableOwnsThePages) {
  Budget budget;
  KvPagePool pool(budget, {.kv_bytes = 4096});
  KvPageTable first(pool);
  ASSERT_TRUE(first.reserve(70));
  KvPageTable second(std::move(first));
  EXPECT_EQ(second.pages().size(), 2U);
  EXPECT_EQ(pool.n_pages_in_use(), 2);
}

TEST(KvPages, ATableThatDoesNotFitKeepsWhatItGot) {
  Budget budget(2 * 4096);
  KvPagePool pool(budget, {.kv_bytes = 4096});
  KvPageTable table(pool);
  const Status status = table.reserve(3 * kKvPagePositions);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kLimit);
  EXPECT_EQ(table.pages().size(), 2U);
}

}  // namespace
}  // namespace soli
