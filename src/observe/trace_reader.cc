#include "observe/trace_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "io/file.h"
#include "model/model_file.h"

namespace soli {
namespace {

// No value of a trace is longer: the logits of the largest shape, in bytes.
constexpr int64_t kMaxTraceValueBytes = TraceShape::kMaxLogits * static_cast<int64_t>(sizeof(float));
constexpr size_t kMaxMetaRows = 64;
constexpr size_t kMaxMetaBytes = size_t{1} << 20;
// Of a request's row, beside its policy: a trace with more of them than fit into it repeats itself.
constexpr int64_t kLeastRequestBytes = 8;

}  // namespace

std::span<const int16_t> ids_of_layer(const TraceRow& row, const TraceShape& shape, int64_t layer) {
  const auto of_layer = row.ids.subspan(static_cast<size_t>(layer * shape.k), static_cast<size_t>(shape.k));
  const auto end = std::find(of_layer.begin(), of_layer.end(), int16_t{-1});
  return of_layer.first(static_cast<size_t>(end - of_layer.begin()));
}

std::span<const float> weights_of_layer(const TraceRow& row, const TraceShape& shape, int64_t layer) {
  return row.weights.subspan(static_cast<size_t>(layer * shape.k), ids_of_layer(row, shape, layer).size());
}

tl::unexpected<Error> TraceReader::malformed(const std::string& what) const {
  return fail(ErrorKind::kMalformed, "{}: {}", path(), what);
}

tl::unexpected<Error> TraceReader::wrong_row(const std::string& what) const {
  return malformed(fmt::format("request {}, position {}: {}", row_.request, row_.position, what));
}

Result<TraceReader> TraceReader::open(const std::string& path) {
  SOLI_ASSIGN_OR_RETURN(const File file, File::open(path));
  if (file.size() == 0) return fail(ErrorKind::kMalformed, "{}: is empty", path);
  SOLI_ASSIGN_OR_RETURN(SqliteFile database, SqliteFile::open(path, kMaxTraceValueBytes));
  TraceReader reader(std::move(database), file.size());
  // The first table tells the version, and another version may have other tables.
  SOLI_RETURN_IF_ERROR(reader.check_table(trace_tables().front()));
  SOLI_RETURN_IF_ERROR(reader.read_meta());
  for (const TraceTable& table : trace_tables()) SOLI_RETURN_IF_ERROR(reader.check_table(table));
  return reader;
}

Status TraceReader::check(const std::string& path) {
  const Result<TraceReader> reader = open(path);
  if (!reader && reader.error().kind != ErrorKind::kUnsupported) return tl::unexpected<Error>(reader.error());
  return {};
}

/// The table must be the very one that soli makes: no view, virtual table or computed column in its place.
Status TraceReader::check_table(const TraceTable& table) {
  SOLI_ASSIGN_OR_RETURN(SqliteStatement find,
                        file_.prepare("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?"));
  find.bind(1, std::string_view(table.name));
  SOLI_ASSIGN_OR_RETURN(const bool is_there, find.step());
  if (!is_there)
    return malformed(fmt::format("is a database, and no trace: there is no table '{}'", table.name));
  SOLI_ASSIGN_OR_RETURN(const std::string_view sql, find.text(0, "sql"));
  if (sql == table.sql) return {};
  return malformed(fmt::format("is a database, and no trace: its table '{}' is another", table.name));
}

Status TraceReader::read_meta() {
  SOLI_ASSIGN_OR_RETURN(SqliteStatement select, file_.prepare("SELECT key, value FROM meta"));
  std::vector<TraceMeta> meta;
  while (true) {
    SOLI_ASSIGN_OR_RETURN(const bool is_there, select.step());
    if (!is_there) break;
    if (meta.size() == kMaxMetaRows) return malformed("meta has too many rows");
    SOLI_ASSIGN_OR_RETURN(const std::string_view key, select.text(0, "a key of meta"));
    SOLI_ASSIGN_OR_RETURN(const std::string_view value, select.text(1, "a value of meta"));
    if (key.size() + value.size() > kMaxMetaBytes) return malformed("a value of meta is too long");
    meta.push_back({std::string(key), std::string(value)});
  }
  Result<TraceInfo> info = from_meta(meta);
  if (!info) return fail(info.error().kind, "{}: {}", path(), info.error().message);
  info_ = *std::move(info);
  const TraceShape& shape = info_.shape;
  ids_.resize(static_cast<size_t>(shape.n_slots()));
  weights_.resize(static_cast<size_t>(shape.n_slots()));
  seen_.resize(static_cast<size_t>(shape.n_experts));
  return {};
}

Result<std::vector<TraceRequest>> TraceReader::requests() {
  SOLI_ASSIGN_OR_RETURN(SqliteStatement select,
                        file_.prepare("SELECT id, started, n_prompt, policy FROM requests ORDER BY id"));
  std::vector<TraceRequest> requests;
  int64_t n_bytes = 0;
  while (true) {
    SOLI_ASSIGN_OR_RETURN(const bool is_there, select.step());
    if (!is_there) return requests;
    TraceRequest request;
    SOLI_ASSIGN_OR_RETURN(const int64_t id, select.integer(0, "id of requests"));
    request.id = static_cast<uint64_t>(id);
    SOLI_ASSIGN_OR_RETURN(request.started, select.number(1, "started of requests"));
    SOLI_ASSIGN_OR_RETURN(request.n_prompt, select.integer(2, "n_prompt of requests"));
    SOLI_ASSIGN_OR_RETURN(const std::string_view policy, select.text(3, "policy of requests"));
    n_bytes += kLeastRequestBytes + static_cast<int64_t>(policy.size());
    const bool is_in_order = requests.empty() || requests.back().id < request.id;
    if (id < 0 || request.n_prompt < 0 || !is_in_order || n_bytes > file_bytes_)
      return malformed(fmt::format("request {} cannot be", id));
    request.policy = policy;
    requests.push_back(std::move(request));
  }
}

Result<int64_t> TraceReader::count_rows(const TraceRange& range) {
  int64_t n = 0;
  SOLI_RETURN_IF_ERROR(for_each_row(range, false, [&](const TraceRow&) -> Status {
    ++n;
    return {};
  }));
  return n;
}

Status TraceReader::for_each_row(const TraceRange& range, bool with_logits,
                                 FunctionRef<Status(const TraceRow&)> on_row) {
  SOLI_ASSIGN_OR_RETURN(SqliteStatement select,
                        file_.prepare(fmt::format(
                            "SELECT request, position, token, cached, ids, weights{} FROM tokens WHERE "
                            "request BETWEEN ? AND ? AND position >= ? AND position < ? ORDER BY request, "
                            "position",
                            with_logits ? ", logits" : "")));
  constexpr int64_t kMostRequest = std::numeric_limits<int64_t>::max();
  select.bind(1, range.request < 0 ? std::numeric_limits<int64_t>::min() : range.request);
  select.bind(2, range.request < 0 ? kMostRequest : range.request);
  select.bind(3, range.request < 0 && range.begin == 0 ? std::numeric_limits<int64_t>::min() : range.begin);
  select.bind(4, range.end);
  bool is_first = true;
  while (true) {
    SOLI_ASSIGN_OR_RETURN(const bool is_there, select.step());
    if (!is_there) return {};
    const TraceRow before = row_;
    SOLI_RETURN_IF_ERROR(read_row(select, with_logits));
    // A damaged tree may give the same rows for ever.
    const bool is_in_order = is_first || before.request < row_.request ||
                             (before.request == row_.request && before.position < row_.position);
    if (!is_in_order) return wrong_row("stands in the wrong order");
    is_first = false;
    SOLI_RETURN_IF_ERROR(on_row(row_));
  }
}

Status TraceReader::read_row(const SqliteStatement& statement, bool with_logits) {
  SOLI_ASSIGN_OR_RETURN(const int64_t request, statement.integer(0, "request of tokens"));
  SOLI_ASSIGN_OR_RETURN(row_.position, statement.integer(1, "position of tokens"));
  row_.request = static_cast<uint64_t>(request);
  SOLI_ASSIGN_OR_RETURN(const int64_t token, statement.integer(2, "token of tokens"));
  SOLI_ASSIGN_OR_RETURN(const int64_t cached, statement.integer(3, "cached of tokens"));
  if (request < 0 || row_.position < 0 || row_.position >= kMaxContextLength)
    return malformed(fmt::format("request {}, position {} cannot be", request, row_.position));
  if (token < 0 || token > std::numeric_limits<int32_t>::max() || cached < 0 || cached > 1)
    return wrong_row(fmt::format("token {}, cached {} cannot be", token, cached));
  row_.token = static_cast<int32_t>(token);
  row_.is_cached = cached == 1;
  SOLI_ASSIGN_OR_RETURN(const auto ids, statement.blob(4, "ids of tokens"));
  SOLI_RETURN_IF_ERROR(read_ids(ids));
  SOLI_ASSIGN_OR_RETURN(const auto weights, statement.blob(5, "weights of tokens"));
  SOLI_RETURN_IF_ERROR(read_floats(weights, shape().n_slots(), "weights", weights_));
  row_.ids = ids_;
  row_.weights = weights_;
  row_.logits = {};
  if (!with_logits || statement.is_null(6)) return {};
  if (!shape().has_logits) return wrong_row("has logits, and the trace has none");
  SOLI_ASSIGN_OR_RETURN(const auto logits, statement.blob(6, "logits of tokens"));
  SOLI_RETURN_IF_ERROR(read_floats(logits, shape().n_logits(), "logits", logits_));
  row_.logits = logits_;
  return {};
}

Status TraceReader::read_ids(std::span<const std::byte> blob) {
  if (static_cast<int64_t>(blob.size()) != shape().ids_bytes()) {
    return wrong_row(fmt::format("ids have {} bytes, and {} layers of {} experts have {}", blob.size(),
                                 shape().n_layers(), shape().k, shape().ids_bytes()));
  }
  std::memcpy(ids_.data(), blob.data(), blob.size());
  for (int64_t layer = 0; layer < shape().n_layers(); ++layer) {
    const std::span of_layer(ids_.data() + layer * shape().k, static_cast<size_t>(shape().k));
    std::fill(seen_.begin(), seen_.end(), uint8_t{0});
    bool is_end = false;
    for (const int16_t id : of_layer) {
      is_end = is_end || id == -1;
      const bool is_expert = id >= 0 && id < shape().n_experts;
      if (is_end ? id != -1 : !is_expert || seen_[static_cast<size_t>(id)]++ != 0) {
        return wrong_row(fmt::format("expert {} cannot be here, in layer {}", id,
                                     shape().moe_layers[static_cast<size_t>(layer)]));
      }
    }
  }
  return {};
}

Status TraceReader::read_floats(std::span<const std::byte> blob, int64_t n, const char* name,
                                std::vector<float>& out) {
  const int64_t bytes = n * static_cast<int64_t>(sizeof(float));
  if (static_cast<int64_t>(blob.size()) != bytes)
    return wrong_row(fmt::format("{} have {} bytes, and the trace's have {}", name, blob.size(), bytes));
  out.resize(static_cast<size_t>(n));
  std::memcpy(out.data(), blob.data(), blob.size());
  const auto finite = [](float x) { return std::isfinite(x); };
  // Logits of a row whose values were not finite are what they were.
  if (&out == &weights_ && !std::all_of(out.begin(), out.end(), finite))
    return wrong_row(fmt::format("{} are not all finite", name));
  return {};
}

}  // namespace soli
