#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "observe/sqlite.h"
#include "observe/trace_file.h"

namespace soli {

/// Which rows are read.
struct TraceRange {
  int64_t request = -1;  // -1: all
  int64_t begin = 0;     // positions
  int64_t end = int64_t{1} << 62;
};

/// Reads a trace, whoever made it: every value is checked against the shape, and memory stays bounded by it.
/// One thread at a time. Move-only.
class TraceReader {
 public:
  /// Fails with kNotFound, kIo, kMalformed or kUnsupported (another version), naming the file.
  static Result<TraceReader> open(const std::string& path);
  /// Whether there is a trace of any version.
  static Status check(const std::string& path);

  const TraceInfo& info() const { return info_; }
  const TraceShape& shape() const { return info_.shape; }
  const std::string& path() const { return file_.path(); }
  int64_t file_bytes() const { return file_bytes_; }

  /// By ascending id. Requests whose tokens all were lost are among them.
  Result<std::vector<TraceRequest>> requests();
  /// How many rows for_each_row() gives.
  Result<int64_t> count_rows(const TraceRange& range = {});
  /// Calls `on_row` for each row, by request and position. Fails with what it fails with, and with kMalformed
  /// for rows that cannot be: sizes that are not the shape's, experts that there are not, weights that are no
  /// numbers, an order that is none. `with_logits` reads them too, where there are any.
  Status for_each_row(const TraceRange& range, bool with_logits, FunctionRef<Status(const TraceRow&)> on_row);

 private:
  TraceReader(SqliteFile file, int64_t file_bytes) : file_(std::move(file)), file_bytes_(file_bytes) {}
  Status check_table(const TraceTable& table);
  Status read_meta();
  Status read_row(const SqliteStatement& statement, bool with_logits);
  Status read_ids(std::span<const std::byte> blob);
  Status read_floats(std::span<const std::byte> blob, int64_t n, const char* name, std::vector<float>& out);
  tl::unexpected<Error> malformed(const std::string& what) const;
  tl::unexpected<Error> wrong_row(const std::string& what) const;

  SqliteFile file_;
  int64_t file_bytes_;
  TraceInfo info_;
  TraceRow row_;
  std::vector<int16_t> ids_;
  std::vector<float> weights_;
  std::vector<float> logits_;
  std::vector<uint8_t> seen_;  // [experts] of the row and layer at hand
};

/// Experts of a row in one of the shape's layers: the leading slots that are used.
std::span<const int16_t> ids_of_layer(const TraceRow& row, const TraceShape& shape, int64_t layer);
std::span<const float> weights_of_layer(const TraceRow& row, const TraceShape& shape, int64_t layer);

}  // namespace soli
