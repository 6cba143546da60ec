#include "observe/trace_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

#include "base/base64.h"
#include "observe/trace_npz.h"

namespace soli {
namespace {

// Of the text of one record, and of the rows that Megatron's take together.
constexpr size_t kTextBytes = size_t{1} << 20;
constexpr int64_t kStepBytes = int64_t{16} << 20;
constexpr int64_t kMostStepTokens = 4096;

/// Text on its way into a file.
class TextWriter {
 public:
  explicit TextWriter(FileWriter& writer) : writer_(writer) {}

  template <typename... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
  }
  /// Writes what there is, if that is much.
  Status pass_on() { return text.size() < kTextBytes ? Status() : flush(); }
  Status flush() {
    SOLI_RETURN_IF_ERROR(writer_.append(std::as_bytes(std::span(text))));
    text.clear();
    return {};
  }

  std::string text;

 private:
  FileWriter& writer_;
};

template <typename T>
void print_list(TextWriter& out, std::span<const T> values) {
  out.text += '[';
  for (size_t i = 0; i < values.size(); ++i) out.print("{}{}", i == 0 ? "" : ",", values[i]);
  out.text += ']';
}

Status write_csv(TraceReader& reader, const TraceRange& range, FileWriter& writer) {
  const TraceShape& shape = reader.shape();
  TextWriter out(writer);
  out.print("request,position,token,cached,layer,rank,expert,weight\n");
  SOLI_RETURN_IF_ERROR(reader.for_each_row(range, false, [&](const TraceRow& row) -> Status {
    for (int64_t l = 0; l < shape.n_layers(); ++l) {
      const auto ids = ids_of_layer(row, shape, l);
      const auto weights = weights_of_layer(row, shape, l);
      for (size_t i = 0; i < ids.size(); ++i) {
        // fmt writes the shortest decimal that reads back as the same float.
        out.print("{},{},{},{},{},{},{},{}\n", row.request, row.position, row.token, row.is_cached ? 1 : 0,
                  shape.moe_layers[static_cast<size_t>(l)], i, ids[i], weights[i]);
      }
    }
    return out.pass_on();
  }));
  return out.flush();
}

/// A request's consecutive rows, as many as memory allows, become a step: one line for each layer.
class MegatronSteps {
 public:
  MegatronSteps(const TraceShape& shape, FileWriter& writer)
      : shape_(shape),
        most_tokens_(std::clamp<int64_t>(kStepBytes / shape.ids_bytes(), 1, kMostStepTokens)),
        out_(writer) {}

  Status add(const TraceRow& row) {
    const bool is_full = static_cast<int64_t>(positions_.size()) == most_tokens_;
    if (!positions_.empty() && (is_full || row.request != request_)) SOLI_RETURN_IF_ERROR(end_step());
    request_ = row.request;
    positions_.push_back(row.position);
    ids_.insert(ids_.end(), row.ids.begin(), row.ids.end());
    return {};
  }
  Status finish() {
    if (!positions_.empty()) SOLI_RETURN_IF_ERROR(end_step());
    return out_.flush();
  }

 private:
  Status end_step() {
    for (int64_t l = 0; l < shape_.n_layers(); ++l) {
      out_.print(
          R"({{"step":{},"stage":"pre_dispatch","block":"decoder","layer":{},"rank":0,"num_tokens":{},)"
          R"("topk":{},"request":{},"positions":)",
          n_steps_, shape_.moe_layers[static_cast<size_t>(l)], positions_.size(), shape_.k, request_);
      print_list<int64_t>(out_, positions_);
      out_.text += R"(,"top_indices":[)";
      for (size_t t = 0; t < positions_.size(); ++t) {
        const auto begin = t * static_cast<size_t>(shape_.n_slots()) + static_cast<size_t>(l * shape_.k);
        out_.text += t == 0 ? "" : ",";
        print_list<int16_t>(out_, std::span(ids_).subspan(begin, static_cast<size_t>(shape_.k)));
      }
      out_.text += "]}\n";
      SOLI_RETURN_IF_ERROR(out_.pass_on());
    }
    ++n_steps_;
    positions_.clear();
    ids_.clear();
    return {};
  }

  const TraceShape& shape_;
  const int64_t most_tokens_;
  TextWriter out_;
  int64_t n_steps_ = 0;
  uint64_t request_ = 0;
  std::vector<int64_t> positions_;
  std::vector<int16_t> ids_;  // [tokens][layers][k]
};

Status write_megatron(TraceReader& reader, const TraceRange& range, FileWriter& writer) {
  MegatronSteps steps(reader.shape(), writer);
  SOLI_RETURN_IF_ERROR(
      reader.for_each_row(range, false, [&](const TraceRow& row) { return steps.add(row); }));
  return steps.finish();
}

/// One line for each request. What belongs to all of its tokens follows the experts, since it is known then.
class SgLangLines {
 public:
  SgLangLines(const TraceShape& shape, FileWriter& writer)
      : shape_(shape), out_(writer), wide_(static_cast<size_t>(shape.n_slots())) {}

  Status add(const TraceRow& row) {
    if (!positions_.empty() && row.request != request_) end_line();
    if (positions_.empty()) out_.print(R"({{"request":{},"routed_experts":")", row.request);
    request_ = row.request;
    positions_.push_back(row.position);
    tokens_.push_back(row.token);
    std::copy(row.ids.begin(), row.ids.end(), wide_.begin());
    encoder_.append(std::as_bytes(std::span(wide_)), out_.text);
    return out_.pass_on();
  }
  Status finish() {
    if (!positions_.empty()) end_line();
    return out_.flush();
  }

 private:
  void end_line() {
    encoder_.finish(out_.text);
    out_.print(R"(","shape":[{},{},{}],"moe_layers":)", positions_.size(), shape_.n_layers(), shape_.k);
    print_list<int32_t>(out_, shape_.moe_layers);
    out_.text += R"(,"positions":)";
    print_list<int64_t>(out_, positions_);
    out_.text += R"(,"token_ids":)";
    print_list<int32_t>(out_, tokens_);
    out_.text += "}\n";
    positions_.clear();
    tokens_.clear();
  }

  const TraceShape& shape_;
  TextWriter out_;
  Base64Encoder encoder_;
  std::vector<int32_t> wide_;  // ids of a row
  uint64_t request_ = 0;
  std::vector<int64_t> positions_;
  std::vector<int32_t> tokens_;
};

Status write_sglang(TraceReader& reader, const TraceRange& range, FileWriter& writer) {
  SgLangLines lines(reader.shape(), writer);
  SOLI_RETURN_IF_ERROR(
      reader.for_each_row(range, false, [&](const TraceRow& row) { return lines.add(row); }));
  return lines.finish();
}

/// One pass over the trace for each array, so that none of them stands in memory.
class NpzExport {
 public:
  NpzExport(TraceReader& reader, const TraceRange& range, FileWriter& writer)
      : reader_(reader), range_(range), npz_(writer) {}

  Status write() {
    const TraceShape& shape = reader_.shape();
    SOLI_ASSIGN_OR_RETURN(n_, reader_.count_rows(range_));
    SOLI_RETURN_IF_ERROR(npz_.begin_array("moe_layers", "<i4", {shape.n_layers()}));
    SOLI_RETURN_IF_ERROR(npz_.append(std::as_bytes(std::span(shape.moe_layers))));
    SOLI_RETURN_IF_ERROR(npz_.end_array());
    SOLI_RETURN_IF_ERROR(
        array("request", "<i8", {}, [](const TraceRow& row) { return bytes_of(row.request); }));
    SOLI_RETURN_IF_ERROR(
        array("position", "<i8", {}, [](const TraceRow& row) { return bytes_of(row.position); }));
    SOLI_RETURN_IF_ERROR(array("token", "<i4", {}, [](const TraceRow& row) { return bytes_of(row.token); }));
    SOLI_RETURN_IF_ERROR(
        array("cached", "|b1", {}, [](const TraceRow& row) { return bytes_of(row.is_cached); }));
    SOLI_RETURN_IF_ERROR(array("ids", "<i2", {shape.n_layers(), shape.k},
                               [](const TraceRow& row) { return std::as_bytes(row.ids); }));
    SOLI_RETURN_IF_ERROR(array("weights", "<f4", {shape.n_layers(), shape.k},
                               [](const TraceRow& row) { return std::as_bytes(row.weights); }));
    if (shape.has_logits) SOLI_RETURN_IF_ERROR(write_logits());
    return npz_.finish();
  }

 private:
  template <typename T>
  static std::span<const std::byte> bytes_of(const T& value) {
    return std::as_bytes(std::span(&value, 1));
  }

  template <typename Bytes>
  Status array(const char* name, const char* type, std::vector<int64_t> row_shape, Bytes bytes,
               bool with_logits = false) {
    row_shape.insert(row_shape.begin(), n_);
    SOLI_RETURN_IF_ERROR(npz_.begin_array(name, type, row_shape));
    int64_t n = 0;
    SOLI_RETURN_IF_ERROR(reader_.for_each_row(range_, with_logits, [&](const TraceRow& row) -> Status {
      if (++n <= n_) return npz_.append(bytes(row));
      return changed();
    }));
    if (n != n_) return changed();
    return npz_.end_array();
  }

  /// Those of cached tokens, which have none, are NaN.
  Status write_logits() {
    const TraceShape& shape = reader_.shape();
    const std::vector<float> none(static_cast<size_t>(shape.n_logits()),
                                  std::numeric_limits<float>::quiet_NaN());
    return array(
        "logits", "<f4", {shape.n_layers(), shape.n_experts},
        [&](const TraceRow& row) {
          return std::as_bytes(row.logits.empty() ? std::span<const float>(none) : row.logits);
        },
        true);
  }

  tl::unexpected<Error> changed() const {
    return fail(ErrorKind::kIo, "{}: changed while it was read", reader_.path());
  }

  TraceReader& reader_;
  const TraceRange range_;
  NpzWriter npz_;
  int64_t n_ = 0;  // rows
};

}  // namespace

Status export_trace(TraceReader& reader, const TraceRange& range, TraceFormat format,
                    const std::string& path) {
  SOLI_ASSIGN_OR_RETURN(FileWriter writer, FileWriter::create(path));
  switch (format) {
    case TraceFormat::kCsv:
      SOLI_RETURN_IF_ERROR(write_csv(reader, range, writer));
      break;
    case TraceFormat::kNpz:
      SOLI_RETURN_IF_ERROR(NpzExport(reader, range, writer).write());
      break;
    case TraceFormat::kMegatron:
      SOLI_RETURN_IF_ERROR(write_megatron(reader, range, writer));
      break;
    case TraceFormat::kSgLang:
      SOLI_RETURN_IF_ERROR(write_sglang(reader, range, writer));
      break;
  }
  return writer.commit();
}

}  // namespace soli
