#pragma once

#include <sched.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "observe/sqlite.h"
#include "observe/trace_recorder.h"

namespace soli {

/// Writes a trace on a thread of its own, in large transactions. What it has written is in the file at most a
/// second or so later, so that somebody else may read a trace that is still growing.
class TraceWriter {
 public:
  static constexpr int64_t kDefaultBufferBytes = int64_t{64} << 20;
  /// What it takes with such a buffer: SQLite has pages in memory too.
  static int64_t bytes_needed(int64_t buffer_bytes) {
    constexpr int64_t kDatabaseBytes = int64_t{12} << 20;
    return Slab::charged_bytes(buffer_bytes) + kDatabaseBytes;
  }

  /// Makes the file, which must be new: one that is there fails with kInvalidArgument, unless `overwrite`
  /// says that a trace may be replaced; another file never is. `info.shape` and `info.sampling` hold; it
  /// starts now. The thread runs on `cpus`. Fails with kIo or kLimit (budget).
  static Result<std::unique_ptr<TraceWriter>> start(const std::string& path, bool overwrite,
                                                    const TraceInfo& info, const ModelSpec& spec,
                                                    Budget& budget, int64_t buffer_bytes,
                                                    const cpu_set_t& cpus);
  /// The error that start() would give for what is there already.
  static Status check(const std::string& path, bool overwrite);

  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;
  /// finish(), where nobody called it.
  ~TraceWriter();

  /// What requests read, for the table "windows", which finish() writes. Before that; from any thread.
  void set_windows(std::vector<TraceWindow> windows);

  ChoiceRecorder& recorder() { return recorder_; }
  const std::string& path() const { return file_.path(); }

  struct Totals {
    int64_t n_written = 0;  // rows; a token that was computed again counts again
    int64_t n_dropped = 0;
    int64_t n_sampled_out = 0;
  };
  /// Writes all that was recorded before, and ends the file. From any thread, even during a step, of whose
  /// tokens nothing is written then. Again: the same result. Fails where anything could not be written, with
  /// the first error.
  Result<Totals> finish();

 private:
  TraceWriter(SqliteFile file, const TraceInfo& info, const ModelSpec& spec, Slab slab);
  Status begin(const cpu_set_t& cpus);
  Status write_meta(const TraceInfo& info);
  void run();
  /// False once finish() was called.
  bool wait();
  Status write_ready();
  Status write_some();
  Status write_request(const TraceRequest& request);
  Status write_row(const TraceSlot& slot);
  Status write_counts(bool is_ended);
  Status write_windows();

  SqliteFile file_;
  TraceInfo info_;
  TraceRing ring_;
  TraceRecorder recorder_;
  std::optional<SqliteStatement> insert_request_;
  std::optional<SqliteStatement> insert_row_;
  std::optional<SqliteStatement> set_meta_;
  int64_t n_written_ = 0;
  Status status_;  // of the thread; read after it has ended
  std::mutex mutex_;
  std::condition_variable asked_to_end_;
  bool is_ending_ = false;
  std::vector<TraceWindow> windows_;  // under mutex_
  std::mutex finish_mutex_;
  std::thread thread_;
};

}  // namespace soli
