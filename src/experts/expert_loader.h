#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/slab.h"
#include "experts/expert_source.h"
#include "io/direct_reader.h"

namespace soli {

/// Brings experts from the disk into memory: keeps reads in flight while the caller computes, and packs, or
/// checks, what has arrived on the caller's team. What is demanded is read before what is only expected. One
/// thread at a time; nothing happens behind its back but the reads themselves.
class ExpertLoader {
 public:
  enum class Urgency { kDemanded, kExpected };
  struct Options {
    int depth = 16;  // reads in flight
    ReadQueueFactory make_queue = make_fastest_queue;
  };
  /// An expert whose load has ended. Where it failed (kIo, kMalformed), its memory holds anything.
  struct Loaded {
    ExpertNumber expert = -1;
    Urgency urgency = Urgency::kDemanded;
    int64_t bytes = 0;                              // read for it
    std::chrono::steady_clock::time_point arrived;  // its last byte
    Status status;
  };

  /// Charges its rooms as "read buffers". `source` is borrowed. Fails with kLimit.
  static Result<std::unique_ptr<ExpertLoader>> create(const ExpertSource& source, Budget& budget,
                                                      const Options& options);
  /// What create() charges.
  static int64_t bytes_needed(const ExpertSource& source, const Options& options);

  /// Asks for an expert that is not being loaded; `memory` has room for it, and is the loader's until the
  /// load has ended.
  void load(ExpertNumber expert, std::byte* memory, Urgency urgency);
  /// An expected expert is demanded now.
  void demand(ExpertNumber expert);
  /// Nobody wants an expected expert any more: reads that have not begun will not. True where nothing is on
  /// its way, and the load is forgotten at once; else it ends, with kCancelled where not all of it was read.
  bool cancel(ExpertNumber expert);

  /// Begins as many reads as the depth allows.
  void submit();
  /// Takes what has arrived, packs it, and adds what is whole to `loaded`. With `wait`, waits for at least
  /// one read, if any is in flight.
  void collect(ThreadTeam& team, bool wait, std::vector<Loaded>& loaded);

  int depth() const { return reader_.depth(); }
  int in_flight() const { return reader_.in_flight(); }
  /// Loads that have been asked for and have not ended.
  int64_t n_loads() const { return n_loads_; }
  /// Time in which reads were in flight, as far as submit() and collect() saw it. Measured.
  double busy_seconds() const { return std::chrono::duration<double>(busy_).count(); }

 private:
  struct Load {
    ExpertNumber expert = -1;  // -1: no load
    std::byte* memory = nullptr;
    Urgency urgency = Urgency::kDemanded;
    std::vector<ExpertRead> reads;
    size_t n_begun = 0;
    size_t n_ended = 0;
    int64_t bytes = 0;
    std::chrono::steady_clock::time_point arrived;
    Status status;
  };
  struct Flight {  // a read on its way, by the room that it goes to
    size_t load = 0;
    size_t read = 0;
    std::byte* rows = nullptr;  // once arrived
  };

  ExpertLoader(const ExpertSource& source, Slab rooms, const Options& options);
  size_t find(ExpertNumber expert) const;
  std::optional<size_t> next_load();
  void begin_read(size_t load);
  void take(DirectReader::Completion completion);
  void pack_arrived(ThreadTeam& team);
  void end_load(size_t load, std::vector<Loaded>& loaded);
  void forget(size_t load);

  const ExpertSource& source_;
  const int64_t room_bytes_;
  Slab rooms_;                   // [depth][room_bytes]
  std::vector<size_t> idle_;     // rooms
  std::vector<Flight> flights_;  // [depth]
  std::vector<size_t> arrived_;  // rooms whose bytes are there, and are to be packed
  std::vector<size_t> whole_;    // loads of which all bytes are there
  std::vector<Load> loads_;      // reused
  std::vector<size_t> free_;     // of them
  std::deque<size_t> demanded_;  // loads with reads to begin, the first to come first
  std::deque<size_t> expected_;
  int64_t n_loads_ = 0;
  std::chrono::steady_clock::time_point busy_since_;
  std::chrono::nanoseconds busy_{0};
  DirectReader reader_;  // last: it reads into the rooms until it is gone
};

}  // namespace soli
