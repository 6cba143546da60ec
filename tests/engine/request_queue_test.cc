// Whose turn it is.

#include "engine/request_queue.h"

#include <gtest/gtest.h>

namespace soli {
namespace {

class Queue : public testing::Test {
 protected:
  void push(uint32_t tenant, int64_t n_prompt = 10, int32_t priority = 0) {
    QueuedRequest queued;
    queued.id = next_id_++;
    queued.request = {.prompt = std::vector<int32_t>(static_cast<size_t>(n_prompt)), .priority = priority};
    queued.request.tenant = tenant;
    queue_.push(std::move(queued));
  }
  /// The oldest of those of which one has its turn.
  QueuedRequest pop() { return queue_.pop(queue_.candidates(1).front()->id); }
  /// Serves the next request to its end; says whose it was.
  uint32_t serve(int64_t n_generated = 0) {
    const Request request = pop().request;
    const auto n_prompt = static_cast<int64_t>(request.prompt.size());
    queue_.serve(request.tenant, n_prompt + n_generated, n_prompt);
    queue_.leave(request.tenant, 0);
    return request.tenant;
  }

  RequestQueue queue_;
  RequestId next_id_ = 1;
};

TEST_F(Queue, WithoutTenantsAndPrioritiesTheOldestGoesFirst) {
  for (int i = 0; i < 5; ++i) push(0);
  for (RequestId id = 1; id <= 5; ++id) {
    ASSERT_FALSE(queue_.candidates(1).empty());
    EXPECT_EQ(queue_.candidates(1).front()->id, id);
    EXPECT_EQ(pop().id, id);
  }
  EXPECT_TRUE(queue_.candidates(1).empty());
  EXPECT_EQ(queue_.size(), 0);
}

TEST_F(Queue, AThousandRequestsOfOneDoNotDelayAnother) {
  for (int i = 0; i < 1000; ++i) push(1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(serve(100), 1U);
  push(2);
  EXPECT_EQ(serve(100), 1U) << "level with the other, whose request is older";
  EXPECT_EQ(serve(100), 2U);
  EXPECT_EQ(queue_.size_of(1), 979);
  EXPECT_EQ(queue_.size_of(2), 0);
}

TEST_F(Queue, TokensCountNotRequests) {
  for (int i = 0; i < 100; ++i) push(1, 10);
  for (int i = 0; i < 100; ++i) push(2, 40);
  int n_of_first = 0;
  for (int i = 0; i < 50; ++i) n_of_first += serve() == 1 ? 1 : 0;
  EXPECT_EQ(n_of_first, 40);
}

TEST_F(Queue, OneThatTakesManySlotsAtOnceHasPaidForThem) {
  for (int i = 0; i < 10; ++i) push(1, 100);
  push(2, 100);
  EXPECT_EQ(pop().request.tenant, 1U);
  EXPECT_EQ(pop().request.tenant, 2U);
  EXPECT_EQ(pop().request.tenant, 1U);
}

TEST_F(Queue, PromptsThatAreStillToBeReadHoldNoNewcomerBack) {
  push(1, 1000);
  push(1, 1000);
  pop();
  push(2, 10);
  pop();
  EXPECT_EQ(queue_.served(1), 0);
  EXPECT_EQ(queue_.served(2), 0) << "level with what the other was served, not with what it wants";
  queue_.serve(1, 400, 400);
  queue_.leave(1, 600);
  EXPECT_EQ(queue_.size_of(1), 1);
  EXPECT_EQ(queue_.served(1), 400);
}

TEST_F(Queue, IdlenessSavesNothingUpAndForgivesNothing) {
  push(1);
  push(2);
  for (int i = 0; i < 50; ++i) push(3);
  EXPECT_EQ(serve(1000), 1U);
  EXPECT_EQ(serve(), 2U);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(serve(), 3U);
  push(2);
  push(2);
  push(1);
  EXPECT_EQ(serve(), 3U);
  EXPECT_EQ(serve(), 2U) << "not twenty turns, but every other";
  EXPECT_EQ(serve(), 3U);
  for (int i = 0; i < 12; ++i) EXPECT_NE(serve(), 1U) << "that had a thousand tokens";
}

TEST_F(Queue, PriorityGoesBeforeAgeWithinATenantOnly) {
  push(1, 10, 0);
  push(1, 10, 5);
  push(1, 10, -2);
  push(1, 10, 5);
  push(2, 10, 9);
  std::vector<RequestId> order;
  while (!queue_.candidates(1).empty()) order.push_back(pop().id);
  EXPECT_EQ(order, (std::vector<RequestId>{2, 5, 4, 1, 3}));
}

TEST_F(Queue, WhoLeavesIsTakenOut) {
  for (int i = 0; i < 6; ++i) push(static_cast<uint32_t>(i % 2));
  const auto left = queue_.take([](const QueuedRequest& queued) { return queued.id % 3 == 0; });
  EXPECT_EQ(left.size(), 2U);
  EXPECT_EQ(queue_.size(), 4);
  EXPECT_EQ(queue_.take([](const QueuedRequest&) { return true; }).size(), 4U);
  EXPECT_TRUE(queue_.candidates(1).empty());
}

TEST_F(Queue, ThoseWithEqualRightsAreCandidates) {
  push(1);
  push(1, 10, 2);
  push(1, 10, 2);
  push(1, 10, 2);
  push(2);
  const auto candidates = queue_.candidates(10);
  ASSERT_EQ(candidates.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(candidates[i]->id, i + 2) << "of the highest priority";
  EXPECT_EQ(queue_.candidates(2).size(), 2U);
  EXPECT_EQ(queue_.pop(4).id, 4U);
  queue_.serve(1, 10, 10);
  queue_.leave(1, 0);
  EXPECT_EQ(queue_.candidates(10).front()->request.tenant, 2U);
  EXPECT_EQ(pop().request.tenant, 2U);
  queue_.serve(2, 100, 10);
  const auto left = queue_.candidates(10);
  ASSERT_EQ(left.size(), 2U);
  EXPECT_EQ(left[0]->n_passed, 1);
  EXPECT_EQ(left[1]->n_passed, 1);
}

}  // namespace
}  // namespace soli
