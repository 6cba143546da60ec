#pragma once

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

namespace soli {

// Such as servers give to their threads. Frames of sanitizers, and those that are not optimised, are several
// times as large.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SOLI_LARGE_FRAMES
#endif
#endif
#if defined(SOLI_LARGE_FRAMES) || defined(__SANITIZE_ADDRESS__) || !defined(__OPTIMIZE__)
inline constexpr size_t kSmallStackBytes = size_t{1} << 20;
#else
inline constexpr size_t kSmallStackBytes = size_t{256} << 10;
#endif

/// Runs the work on a thread with a small stack.
template <typename Work>
void on_small_stack(Work work) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kSmallStackBytes), 0);
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    (*static_cast<Work*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace soli
