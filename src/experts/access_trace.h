#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "experts/cache_policy.h"

namespace soli {

/// Which experts the layers of a run asked for, visit by visit: what policies are compared on. A few bytes
/// per visit, up to a limit; what comes after it is counted and not kept. One thread.
///
/// The file: "soli-trace" with its version, then all fields below as 64-bit little-endian numbers, then the
/// visits.
class AccessTrace {
 public:
  static constexpr int64_t kMaxBytes = int64_t{256} << 20;

  AccessTrace(int64_t n_layers, int64_t n_experts, int64_t max_bytes = kMaxBytes);

  /// Of a file that save() wrote, or of its bytes, where `name` stands for it in errors. Fails with kIo,
  /// kNotFound, kLimit, or with kMalformed or kUnsupported naming what is wrong.
  static Result<AccessTrace> load(const std::string& path);
  static Result<AccessTrace> parse(std::span<const std::byte> bytes, const std::string& name);
  Status save(const std::string& path) const;

  void record(const LayerVisit& visit);

  int64_t n_layers() const { return n_layers_; }
  int64_t n_experts() const { return n_experts_; }
  int64_t n_visits() const { return n_visits_; }
  /// Visits that came when the limit was reached.
  int64_t n_dropped() const { return n_dropped_; }
  int64_t bytes() const { return static_cast<int64_t>(bytes_.size()); }

  /// Gives the visits one by one, from the first.
  class Reader {
   public:
    explicit Reader(const AccessTrace& trace) : trace_(trace) {}
    /// The next visit, valid until the next call; nullptr at the end.
    const LayerVisit* next();

   private:
    friend class AccessTrace;
    /// Reads the visit at position_, which must not be the end.
    Status read();

    const AccessTrace& trace_;
    size_t position_ = 0;
    LayerVisit visit_;
    std::vector<int32_t> experts_;
    std::vector<int32_t> calls_;
  };

 private:
  Status check_visits() const;

  int64_t n_layers_;
  int64_t n_experts_;
  int64_t max_bytes_;
  int64_t n_visits_ = 0;
  int64_t n_dropped_ = 0;
  std::vector<uint8_t> bytes_;
};

}  // namespace soli
