#include "observe/trace_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/affinity.h"
#include "io/file.h"
#include "io/file_writer.h"
#include "observe/trace_reader.h"

namespace soli {
namespace {

using TraceClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kWriterPause{50};   // between two looks at an empty buffer
constexpr std::chrono::milliseconds kCommitEvery{500};  // of what is written, whatever it is
constexpr int64_t kRowsAtOnce = 256;                    // before room is given back

// A crash of the program leaves whole transactions; that of the machine may leave none. Large pages, since
// rows have some thousand bytes.
constexpr const char* kPragmas =
    "PRAGMA page_size = 32768; PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF; "
    "PRAGMA cache_size = -8192";

}  // namespace

Status TraceWriter::check(const std::string& path, bool overwrite) {
  SOLI_RETURN_IF_ERROR(FileWriter::check(path));
  const Result<File> file = File::open(path);
  if (!file) {
    if (file.error().kind == ErrorKind::kNotFound) return {};
    return tl::unexpected<Error>(file.error());
  }
  if (!overwrite) {
    return fail(ErrorKind::kInvalidArgument, "{}: is there already; --trace-overwrite replaces a trace",
                path);
  }
  if (file->size() == 0) return {};
  const Status is_trace = TraceReader::check(path);
  if (is_trace) return {};
  return fail(ErrorKind::kInvalidArgument, "{}: is no trace of soli, and is not replaced by one ({})", path,
              is_trace.error().message);
}

Result<std::unique_ptr<TraceWriter>> TraceWriter::start(const std::string& path, bool overwrite,
                                                        const TraceInfo& info, const ModelSpec& spec,
                                                        Budget& budget, int64_t buffer_bytes,
                                                        const cpu_set_t& cpus) {
  SOLI_RETURN_IF_ERROR(check(path, overwrite));
  SOLI_ASSIGN_OR_RETURN(Slab slab, TraceRing::allocate(budget, info.shape, buffer_bytes));
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return fail(ErrorKind::kIo, "{}: cannot replace: {}", path, std::strerror(errno));
  SOLI_ASSIGN_OR_RETURN(SqliteFile file, SqliteFile::create(path));
  std::unique_ptr<TraceWriter> writer(new TraceWriter(std::move(file), info, spec, std::move(slab)));
  SOLI_RETURN_IF_ERROR(writer->begin(cpus));
  return writer;
}

TraceWriter::TraceWriter(SqliteFile file, const TraceInfo& info, const ModelSpec& spec, Slab slab)
    : file_(std::move(file)),
      info_(info),
      ring_(std::move(slab), info.shape),
      recorder_(spec, info.shape, info.sampling, ring_) {}

Status TraceWriter::begin(const cpu_set_t& cpus) {
  SOLI_RETURN_IF_ERROR(file_.execute(kPragmas));
  SOLI_RETURN_IF_ERROR(file_.execute("BEGIN"));
  for (const TraceTable& table : trace_tables()) SOLI_RETURN_IF_ERROR(file_.execute(table.sql));
  SOLI_ASSIGN_OR_RETURN(set_meta_, file_.prepare("INSERT OR REPLACE INTO meta VALUES (?, ?)"));
  SOLI_ASSIGN_OR_RETURN(insert_request_,
                        file_.prepare("INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?)"));
  SOLI_ASSIGN_OR_RETURN(insert_row_,
                        file_.prepare("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?)"));
  info_.started = seconds_since_1970();
  SOLI_RETURN_IF_ERROR(write_meta(info_));
  SOLI_RETURN_IF_ERROR(file_.execute("COMMIT"));
  thread_ = std::thread([this] { run(); });
  return set_affinity(thread_.native_handle(), cpus);
}

TraceWriter::~TraceWriter() { finish(); }

Result<TraceWriter::Totals> TraceWriter::finish() {
  const std::lock_guard finishing(finish_mutex_);
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    asked_to_end_.notify_one();
    thread_.join();
  }
  if (!status_) return tl::unexpected<Error>(status_.error());
  return Totals{n_written_, recorder_.n_dropped(), recorder_.n_sampled_out()};
}

void TraceWriter::set_windows(std::vector<TraceWindow> windows) {
  const std::lock_guard lock(mutex_);
  windows_ = std::move(windows);
}

bool TraceWriter::wait() {
  std::unique_lock lock(mutex_);
  return !asked_to_end_.wait_for(lock, kWriterPause, [this] { return is_ending_; });
}

/// After an error nothing more is written; what is recorded then is dropped.
void TraceWriter::run() {
  bool goes_on = true;
  while (goes_on && status_) {
    goes_on = wait();
    status_ = write_ready();
  }
  if (status_) status_ = file_.execute("BEGIN");
  if (status_) status_ = write_windows();
  if (status_) status_ = write_counts(true);
  if (status_) status_ = file_.execute("COMMIT");
}

/// All that is ready, in one transaction, or in several where that takes long.
Status TraceWriter::write_ready() {
  while (ring_.n_ready() > 0) {
    SOLI_RETURN_IF_ERROR(file_.execute("BEGIN"));
    SOLI_RETURN_IF_ERROR(write_some());
    SOLI_RETURN_IF_ERROR(write_counts(false));
    SOLI_RETURN_IF_ERROR(file_.execute("COMMIT"));
  }
  return {};
}

Status TraceWriter::write_some() {
  const TraceClock::time_point until = TraceClock::now() + kCommitEvery;
  while (ring_.n_ready() > 0 && TraceClock::now() < until) {
    const int64_t n = std::min(ring_.n_ready(), kRowsAtOnce);
    for (const TraceRequest& request : recorder_.take_requests())
      SOLI_RETURN_IF_ERROR(write_request(request));
    for (int64_t i = 0; i < n; ++i) SOLI_RETURN_IF_ERROR(write_row(ring_.front(i)));
    ring_.take(n);
    n_written_ += n;
  }
  return {};
}

Status TraceWriter::write_request(const TraceRequest& request) {
  insert_request_->bind(1, static_cast<int64_t>(request.id));
  insert_request_->bind(2, request.started);
  insert_request_->bind(3, request.n_prompt);
  insert_request_->bind(4, std::string_view(request.policy));
  return insert_request_->run();
}

Status TraceWriter::write_row(const TraceSlot& slot) {
  insert_row_->bind(1, static_cast<int64_t>(slot.head->request));
  insert_row_->bind(2, slot.head->position);
  insert_row_->bind(3, int64_t{slot.head->token});
  insert_row_->bind(4, int64_t{slot.head->is_cached});
  // Little endian, like this machine.
  insert_row_->bind(5, std::as_bytes(slot.ids));
  insert_row_->bind(6, std::as_bytes(slot.weights));
  if (slot.logits.empty() || slot.head->is_cached) {
    insert_row_->bind_null(7);
  } else {
    insert_row_->bind(7, std::as_bytes(slot.logits));
  }
  return insert_row_->run();
}

Status TraceWriter::write_meta(const TraceInfo& info) {
  for (const TraceMeta& meta : to_meta(info)) {
    set_meta_->bind(1, std::string_view(meta.key));
    set_meta_->bind(2, std::string_view(meta.value));
    SOLI_RETURN_IF_ERROR(set_meta_->run());
  }
  return {};
}

Status TraceWriter::write_windows() {
  const std::lock_guard lock(mutex_);
  if (windows_.empty()) return {};
  SOLI_RETURN_IF_ERROR(file_.execute(trace_windows_table().sql));
  SOLI_ASSIGN_OR_RETURN(SqliteStatement insert, file_.prepare("INSERT INTO windows VALUES (?, ?, ?, ?)"));
  for (const TraceWindow& window : windows_) {
    insert.bind(1, static_cast<int64_t>(window.request));
    insert.bind(2, std::string_view(window.domain));
    insert.bind(3, window.number);
    insert.bind(4, window.first_position);
    SOLI_RETURN_IF_ERROR(insert.run());
  }
  return {};
}

Status TraceWriter::write_counts(bool is_ended) {
  TraceInfo info = info_;
  info.is_ended = is_ended;
  info.n_dropped = recorder_.n_dropped();
  info.n_sampled_out = recorder_.n_sampled_out();
  return write_meta(info);
}

}  // namespace soli
