// The tree of cached pages by itself: what it finds, whom it gives up, who holds what.

#include "engine/prefix_cache.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/rng.h"

namespace soli {
namespace {

using Tokens = std::vector<int32_t>;

constexpr int64_t kPage = kKvPagePositions;

Tokens count_from(int32_t first, int64_t n) {
  Tokens tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PrefixCacheTest : public testing::Test {
 protected:
  /// Leaves pages of these tokens in the cache, and says which.
  std::vector<KvPageId> leave(const Tokens& tokens, const PrefixKey& key = {}) {
    KvPageTable table(pool_);
    const auto n = static_cast<int64_t>(tokens.size());
    EXPECT_TRUE(table.reserve(n));
    cache_.insert(key, tokens, table);
    return {table.ids().begin(), table.ids().end()};
  }
  int64_t n_found(const Tokens& tokens, const PrefixKey& key = {}) {
    return cache_.find(key, tokens, static_cast<int64_t>(tokens.size())).n_positions;
  }

  Budget budget_;
  KvPagePool pool_{budget_, {.kv_bytes = 4096, .routing_bytes = 64, .max_pages = 8}};
  PrefixCache cache_{pool_};
};

TEST_F(PrefixCacheTest, FindsWholePagesAndTheBeginningOfOne) {
  const Tokens tokens = count_from(0, 3 * kPage);
  const auto pages = leave(tokens);
  EXPECT_EQ(cache_.n_pages(), 3);
  EXPECT_EQ(pool_.n_pages_in_use(), 3);
  const auto all = cache_.find({}, tokens, 3 * kPage);
  EXPECT_EQ(all.n_positions, 3 * kPage);
  EXPECT_EQ(all.pages, pages);
  EXPECT_EQ(cache_.find({}, tokens, 3 * kPage - 1).n_positions, 3 * kPage - 1);
  EXPECT_EQ(cache_.find({}, tokens, 3 * kPage - 1).pages.size(), 3U);
  EXPECT_EQ(n_found(count_from(0, kPage + 20) + count_from(500, 90)), kPage + 20);
  EXPECT_EQ(n_found(count_from(0, kPage + 3) + count_from(500, 90)), kPage) << "not worth a copy";
  EXPECT_EQ(n_found(count_from(1, 90)), 0);
  EXPECT_EQ(n_found({}), 0);
  EXPECT_EQ(n_found(tokens, {.adapter = 2}), 0);
  EXPECT_EQ(n_found(tokens, {.policy = {.experts_per_token = 1}}), 0);
}

TEST_F(PrefixCacheTest, OfManyBranchesTheMostAlikeIsFound) {
  for (const int32_t branch : {100, 200, 300, 400}) leave(count_from(0, 40) + count_from(branch, 24));
  EXPECT_EQ(n_found(count_from(0, 40) + count_from(200, 24)), 64);
  EXPECT_EQ(n_found(count_from(0, 40) + count_from(300, 11) + count_from(0, 13)), 51);
  EXPECT_EQ(n_found(count_from(0, 40) + count_from(250, 24)), 40);
}

TEST_F(PrefixCacheTest, EqualPagesAreHeldOnce) {
  const Tokens tokens = count_from(0, 2 * kPage);
  const auto pages = leave(tokens);
  KvPageTable table(pool_);
  ASSERT_TRUE(table.reserve(2 * kPage));
  EXPECT_EQ(pool_.n_pages_in_use(), 4);
  cache_.insert({}, tokens, table);
  EXPECT_EQ(std::vector<KvPageId>(table.ids().begin(), table.ids().end()), pages);
  EXPECT_EQ(pool_.n_pages_in_use(), 2);
  EXPECT_EQ(pool_.n_holders(pages[0]), 2);
  EXPECT_EQ(cache_.n_evictable(), 0);
  table.truncate(0);
  EXPECT_EQ(cache_.n_evictable(), 2);
}

TEST_F(PrefixCacheTest, GivesUpTheLeastRecentlyUsedLeafThatNobodyHolds) {
  const Tokens old = count_from(0, 2 * kPage);
  const Tokens held = count_from(1000, kPage);
  const Tokens recent = count_from(2000, kPage);
  leave(held);
  leave(old);
  leave(recent);
  KvPageTable holder(pool_);
  holder.share(cache_.find({}, held, kPage).pages[0]);
  leave(recent);
  n_found(held);
  EXPECT_EQ(cache_.n_evictable(), 3);
  ASSERT_TRUE(cache_.evict_one());
  EXPECT_EQ(n_found(old), kPage) << "its end goes before its beginning";
  ASSERT_TRUE(cache_.evict_one());
  EXPECT_EQ(n_found(recent), 0) << "the beginning of the other was used since";
  ASSERT_TRUE(cache_.evict_one());
  EXPECT_EQ(n_found(old), 0);
  EXPECT_FALSE(cache_.evict_one());
  EXPECT_EQ(cache_.n_pages(), 1);
  EXPECT_EQ(cache_.n_evictions(), 3);
}

TEST(PrefixCache, KeepsNoMoreThanItMayOfWhatNobodyHolds) {
  Budget budget;
  KvPagePool pool(budget, {.kv_bytes = 4096});
  PrefixCache cache(pool, 2);
  {
    KvPageTable table(pool);
    ASSERT_TRUE(table.reserve(5 * kPage));
    cache.insert({}, count_from(0, 5 * kPage), table);
    cache.trim();
    EXPECT_EQ(cache.n_pages(), 5) << "a sequence holds them";
  }
  cache.trim();
  EXPECT_EQ(cache.n_pages(), 2);
  EXPECT_EQ(pool.n_pages_in_use(), 2);
  EXPECT_EQ(cache.find({}, count_from(0, 5 * kPage), 5 * kPage).n_positions, 2 * kPage);
}

TEST_F(PrefixCacheTest, ThePoolTakesCachedPagesBeforeItRefuses) {
  leave(count_from(0, 5 * kPage));
  KvPageTable table(pool_);
  ASSERT_TRUE(table.reserve(6 * kPage));
  EXPECT_EQ(cache_.n_pages(), 2);
  EXPECT_EQ(n_found(count_from(0, 5 * kPage)), 2 * kPage);
  ASSERT_TRUE(table.reserve(8 * kPage));
  EXPECT_EQ(cache_.n_pages(), 0);
  const Status status = table.reserve(9 * kPage);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::kLimit);
  EXPECT_EQ(pool_.n_pages(), 8);
}

TEST_F(PrefixCacheTest, ASharedPageIsCopiedBeforeItIsWritten) {
  leave(count_from(0, kPage));
  const KvPageId cached = cache_.find({}, count_from(0, 50), 50).pages[0];
  pool_.data(cached)[7] = std::byte{42};
  pool_.routing(cached)[9] = std::byte{43};
  KvPageTable table(pool_);
  table.share(cached);
  ASSERT_TRUE(table.unshare(50));
  EXPECT_NE(table.ids()[0], cached);
  EXPECT_EQ(table.pages()[0][7], std::byte{42});
  EXPECT_EQ(table.routing(50)[9], std::byte{43});
  EXPECT_EQ(pool_.n_holders(cached), 1);
  const KvPageId own = table.ids()[0];
  ASSERT_TRUE(table.unshare(51));
  EXPECT_EQ(table.ids()[0], own);
}

TEST_F(PrefixCacheTest, ClearingLeavesSequencesTheirPages) {
  leave(count_from(0, 2 * kPage));
  leave(count_from(0, kPage) + count_from(900, kPage), {.adapter = 1});
  KvPageTable table(pool_);
  for (const KvPageId page : cache_.find({}, count_from(0, 2 * kPage), 2 * kPage).pages) table.share(page);
  cache_.clear();
  EXPECT_EQ(cache_.n_pages(), 0);
  EXPECT_EQ(pool_.n_pages_in_use(), 2);
  EXPECT_EQ(pool_.n_holders(table.ids()[0]), 1);
}

TEST(PrefixCache, AgreesWithAListOfWhatWasLeft) {
  Budget budget;
  KvPagePool pool(budget, {.kv_bytes = 64});
  PrefixCache cache(pool);
  Rng rng(3);
  std::vector<Tokens> left;
  // Few distinct pages in any order, some of which differ in their last tokens only.
  const auto random_tokens = [&] {
    Tokens tokens;
    for (uint64_t n = 1 + rng.next_below(5); n > 0; --n) {
      Tokens page(kPage, static_cast<int32_t>(rng.next_below(3)));
      page[kPage - 1 - rng.next_below(4) * 10] = static_cast<int32_t>(rng.next_below(3));
      tokens = tokens + page;
    }
    return tokens;
  };
  for (int i = 0; i < 300; ++i) {
    const Tokens tokens = random_tokens();
    int64_t longest = 0;
    for (const Tokens& other : left) {
      const auto end = std::mismatch(tokens.begin(), tokens.end(), other.begin(), other.end()).first;
      const int64_t n = end - tokens.begin();
      longest = std::max(longest, n % kPage < PrefixCache::kLeastPart ? n - n % kPage : n);
    }
    const auto match = cache.find({}, tokens, static_cast<int64_t>(tokens.size()));
    ASSERT_EQ(match.n_positions, longest) << i;
    ASSERT_EQ(match.pages.size(), KvPageTable::pages_for(longest));
    if (i % 3 != 0) continue;
    KvPageTable table(pool);
    ASSERT_TRUE(table.reserve(static_cast<int64_t>(tokens.size())));
    cache.insert({}, tokens, table);
    left.push_back(tokens);
  }
  EXPECT_EQ(pool.n_pages_in_use(), cache.n_pages());
  while (cache.evict_one()) {
  }
  EXPECT_EQ(pool.n_pages_in_use(), 0);
}

}  // namespace
}  // namespace soli
