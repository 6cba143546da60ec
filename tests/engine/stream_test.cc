// How a client hears of what its stream holds, and the engine of what its clients do.

#include "engine/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace soli {
namespace {

using Kind = StreamEvent::Kind;

TEST(Stream, IsReadyOnceForEachTimeThatItWasEmpty) {
  Stream stream(1);
  int n_calls = 0;
  stream.set_on_ready([&] { ++n_calls; });
  EXPECT_EQ(n_calls, 0);
  stream.push({});
  stream.push({});
  EXPECT_EQ(n_calls, 1);
  ASSERT_TRUE(stream.try_pop());
  stream.push({});
  EXPECT_EQ(n_calls, 1) << "it was not empty";
  while (stream.try_pop()) {
  }
  stream.push({.kind = Kind::kFinished});
  EXPECT_EQ(n_calls, 2);
}

TEST(Stream, WhoComesLateIsCalledAtOnce) {
  Stream stream(1);
  stream.push({});
  int n_calls = 0;
  stream.set_on_ready([&] { ++n_calls; });
  EXPECT_EQ(n_calls, 1);
  stream.push({.kind = Kind::kFinished});
  stream.set_on_ready([&] { n_calls += 10; });
  EXPECT_EQ(n_calls, 11);
  stream.set_on_ready({});
  EXPECT_EQ(n_calls, 11);
}

TEST(Stream, TheCallbackMayUseTheStream) {
  auto stream = std::make_shared<Stream>(1);
  std::vector<Kind> kinds;
  stream->set_on_ready([&] {
    while (auto event = stream->try_pop()) kinds.push_back(event->kind);
    if (kinds.size() == 1) stream->close();
    if (kinds.size() == 2) stream->set_on_ready({});
  });
  stream->push({});
  EXPECT_TRUE(stream->is_closed());
  stream->push({});
  stream->push({.kind = Kind::kFinished});
  EXPECT_EQ(kinds.size(), 2U);
}

TEST(Stream, ForgetsTheCallbackWithItsLastEvent) {
  auto stream = std::make_shared<Stream>(1);
  const std::weak_ptr<Stream> watched = stream;
  stream->set_on_ready([owner = stream] {});  // a circle, until the end
  stream->push({.kind = Kind::kFinished});
  stream.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(Stream, TheEngineHearsOfRoomAndOfLeaving) {
  const auto wakeup = std::make_shared<Wakeup>();
  const auto woken = [&] { return wakeup->wait_for(std::chrono::milliseconds(0)); };
  Stream stream(1, wakeup);
  for (size_t i = 0; i < Stream::kCapacityEvents + 1; ++i) stream.push({});
  EXPECT_TRUE(stream.is_full());
  while (stream.is_full()) {
    EXPECT_FALSE(woken());
    stream.pop();
  }
  EXPECT_TRUE(woken());
  size_t n_left = 0;
  while (stream.try_pop()) ++n_left;
  EXPECT_EQ(n_left, Stream::kCapacityEvents / 2) << "so that it is full only after some more";
  EXPECT_FALSE(woken()) << "there was room already";
  stream.close();
  EXPECT_TRUE(woken());
}

TEST(Stream, ASignalBeforeTheWaitIsNotLost) {
  Wakeup wakeup;
  wakeup.signal();
  EXPECT_TRUE(wakeup.wait_for(Wakeup::kLongestWait));
  wakeup.signal();
  wakeup.clear();
  EXPECT_FALSE(wakeup.wait_for(std::chrono::milliseconds(0)));
  std::thread other([&] { wakeup.signal(); });
  EXPECT_TRUE(wakeup.wait_for(std::chrono::milliseconds::max())) << "no overflow";
  other.join();
}

TEST(Stream, ManyEventsToAReaderThatIsOnlyCalled) {
  const auto stream = std::make_shared<Stream>(1);
  Wakeup ready;
  stream->set_on_ready([&] { ready.signal(); });
  constexpr int kEvents = 20'000;
  std::thread writer([&] {
    for (int i = 0; i < kEvents; ++i) stream->push({.token = i});
    stream->push({.kind = Kind::kFinished});
  });
  int n_read = 0;
  bool finished = false;
  while (!finished) {
    ASSERT_TRUE(ready.wait_for(std::chrono::minutes(1)));
    while (auto event = stream->try_pop()) {
      finished = event->kind == Kind::kFinished;
      if (finished) break;
      ASSERT_EQ(event->token, n_read++);
    }
  }
  writer.join();
  EXPECT_EQ(n_read, kEvents);
}

}  // namespace
}  // namespace soli
