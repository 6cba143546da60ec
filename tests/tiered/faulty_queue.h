#pragma once

// A queue of reads of which some go wrong, as disks and kernels make them.

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

#include "io/read_queue.h"

namespace soli {

/// What happens to the reads of a FaultyQueue; may be changed while it is used, by any thread.
struct Faults {
  std::atomic<int> fail_every{0};  // every n-th read ends with `error`; 0: none does
  std::atomic<int> error{EIO};     // or 0: it ends short
  std::atomic<int> delay_us{0};    // of each read
  std::atomic<int64_t> n_reads{0};
};

class FaultyQueue final : public ReadQueue {
 public:
  FaultyQueue(int depth, Faults& faults) : queue_(make_thread_queue(depth)), faults_(faults) {}

  void start(int slot, int descriptor, int64_t offset, std::span<std::byte> out) override {
    const int64_t n = ++faults_.n_reads;
    const int every = faults_.fail_every;
    if (every > 0 && n % every == 0) {
      // The rest of the memory stays as it was: whoever trusts it computes with another expert's bytes.
      if (faults_.error == 0) out = out.first(out.size() / 2);
      failing_ |= uint64_t{faults_.error != 0} << slot;
    }
    queue_->start(slot, descriptor, offset, out);
  }
  std::optional<Completion> poll() override {
    std::optional<Completion> completion = queue_->poll();
    if (completion) spoil(*completion);
    return completion;
  }
  Completion wait() override {
    std::this_thread::sleep_for(std::chrono::microseconds(faults_.delay_us));
    Completion completion = queue_->wait();
    spoil(completion);
    return completion;
  }

 private:
  void spoil(Completion& completion) {
    const uint64_t bit = uint64_t{1} << completion.slot;
    if ((failing_ & bit) == 0) return;
    failing_ &= ~bit;
    completion.result = -faults_.error;
  }

  std::unique_ptr<ReadQueue> queue_;
  Faults& faults_;
  uint64_t failing_ = 0;  // slots; depths up to 64
};

inline ReadQueueFactory faulty_queue(Faults& faults) {
  return [&faults](int depth) { return std::make_unique<FaultyQueue>(depth, faults); };
}

}  // namespace soli
