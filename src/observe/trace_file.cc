#include "observe/trace_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>

#include "base/rng.h"
#include "base/utf8.h"

namespace soli {
namespace {

// SQLite keeps these texts as they are: a file whose texts differ is not ours.
constexpr std::array<TraceTable, 3> kTables = {
    {{"meta", "CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL) WITHOUT ROWID"},
     {"requests",
      "CREATE TABLE requests (id INTEGER PRIMARY KEY NOT NULL, started REAL NOT NULL, n_prompt INTEGER NOT "
      "NULL, "
      "policy TEXT NOT NULL)"},
     {"tokens",
      "CREATE TABLE tokens (request INTEGER NOT NULL, position INTEGER NOT NULL, token INTEGER NOT NULL, "
      "cached INTEGER NOT NULL, ids BLOB NOT NULL, weights BLOB NOT NULL, logits BLOB, "
      "UNIQUE (request, position))"}}};

constexpr TraceTable kWindowsTable = {
    "windows",
    "CREATE TABLE windows (request INTEGER PRIMARY KEY NOT NULL, domain TEXT NOT NULL, number INTEGER NOT "
    "NULL, first_position INTEGER NOT NULL)"};

constexpr const char* kTraceFormat = "soli-trace";

/// Reads values by their key.
class MetaReader {
 public:
  explicit MetaReader(const std::vector<TraceMeta>& meta) : meta_(meta) {}

  Result<std::string> text(const char* key) const {
    const auto found = std::find_if(meta_.begin(), meta_.end(), [&](const auto& m) { return m.key == key; });
    if (found == meta_.end()) return fail(ErrorKind::kMalformed, "meta has no '{}'", key);
    return found->value;
  }
  template <typename T>
  Result<T> number(const char* key, T least, T most) const {
    SOLI_ASSIGN_OR_RETURN(const std::string value, text(key));
    T parsed = {};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error == std::errc() && end == value.data() + value.size() && parsed >= least && parsed <= most)
      return parsed;
    return fail(ErrorKind::kMalformed, "meta '{}' is '{}'; {} to {} are allowed", key, printable(value),
                least, most);
  }

 private:
  const std::vector<TraceMeta>& meta_;
};

/// "0,1,2"
Result<std::vector<int32_t>> parse_layers(const std::string& text) {
  std::vector<int32_t> layers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end && static_cast<int64_t>(layers.size()) <= TraceShape::kMaxLayers) {
    int32_t layer = 0;
    const auto [next, error] = std::from_chars(at, end, layer);
    if (error != std::errc() || (next < end && *next != ',')) break;
    layers.push_back(layer);
    if (next == end) return layers;
    at = next + 1;
  }
  return fail(ErrorKind::kMalformed, "meta 'moe_layers' is '{}', not a list of layers", printable(text));
}

}  // namespace

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::span<const TraceTable> trace_tables() { return kTables; }

const TraceTable& trace_windows_table() { return kWindowsTable; }

Result<TraceShape> TraceShape::of_model(const ModelSpec& spec, int64_t k, bool has_logits) {
  if (!spec.is_moe())
    return fail(ErrorKind::kInvalidArgument, "this is a dense model, which makes no choices");
  TraceShape shape = {.n_experts = spec.router.n_experts, .k = k, .has_logits = has_logits};
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (spec.is_moe_layer(layer)) shape.moe_layers.push_back(static_cast<int32_t>(layer));
  }
  SOLI_RETURN_IF_ERROR(shape.check());
  return shape;
}

Status TraceShape::check() const {
  const auto check_range = [](const char* what, int64_t value, int64_t most) -> Status {
    if (value >= 1 && value <= most) return {};
    return fail(ErrorKind::kInvalidArgument, "{}: {} is not allowed in a trace; 1 to {}", what, value, most);
  };
  SOLI_RETURN_IF_ERROR(check_range("layers with experts", n_layers(), kMaxLayers));
  SOLI_RETURN_IF_ERROR(check_range("experts", n_experts, kMaxExperts));
  SOLI_RETURN_IF_ERROR(check_range("experts per token", k, n_experts));
  SOLI_RETURN_IF_ERROR(check_range("experts per token, over all layers", n_slots(), kMaxSlots));
  SOLI_RETURN_IF_ERROR(check_range("experts, over all layers", n_layers() * n_experts, kMaxLogits));
  int32_t before = -1;
  for (const int32_t layer : moe_layers) {
    if (layer <= before)
      return fail(ErrorKind::kInvalidArgument, "layer {} after layer {}: they must ascend", layer, before);
    before = layer;
  }
  return {};
}

bool TraceSampling::takes(uint64_t request, int64_t position) const {
  if (share >= 1) return true;
  const uint64_t of_request = hash_u64(request);
  const uint64_t hash = of_tokens ? hash_u64(of_request ^ static_cast<uint64_t>(position)) : of_request;
  return static_cast<double>(hash >> 11) * 0x1p-53 < share;
}

std::vector<TraceMeta> to_meta(const TraceInfo& info) {
  const auto text = [](const auto& value) { return fmt::to_string(value); };
  return {{"format", kTraceFormat},
          {"version", text(kTraceVersion)},
          {"soli", info.soli},
          {"model", replace_invalid_utf8(info.model)},
          {"architecture", replace_invalid_utf8(info.architecture)},
          {"model_file", replace_invalid_utf8(info.model_file)},
          {"model_id", info.model_id},
          {"policy", info.policy},
          {"moe_layers", fmt::format("{}", fmt::join(info.shape.moe_layers, ","))},
          {"n_layers", text(info.shape.n_layers())},
          {"n_experts", text(info.shape.n_experts)},
          {"k", text(info.shape.k)},
          {"logits", info.shape.has_logits ? "1" : "0"},
          {"sample", text(info.sampling.share)},
          {"sample_of", info.sampling.of_tokens ? "tokens" : "requests"},
          {"started", fmt::format("{:.3f}", info.started)},
          {"ended", info.is_ended ? "1" : "0"},
          {"n_sampled_out", text(info.n_sampled_out)},
          {"n_dropped", text(info.n_dropped)}};
}

Result<TraceInfo> from_meta(const std::vector<TraceMeta>& meta) {
  constexpr int64_t kMost = int64_t{1} << 62;
  const MetaReader reader(meta);
  const Result<std::string> format = reader.text("format");
  if (!format || *format != kTraceFormat)
    return fail(ErrorKind::kMalformed, "is a database, and no trace: its meta has no format '{}'",
                kTraceFormat);
  SOLI_ASSIGN_OR_RETURN(const int64_t version, reader.number<int64_t>("version", 0, kMost));
  if (version != kTraceVersion) {
    return fail(ErrorKind::kUnsupported, "is a trace of version {}; this soli reads version {}", version,
                kTraceVersion);
  }
  TraceInfo info;
  SOLI_ASSIGN_OR_RETURN(info.soli, reader.text("soli"));
  SOLI_ASSIGN_OR_RETURN(info.model, reader.text("model"));
  SOLI_ASSIGN_OR_RETURN(info.architecture, reader.text("architecture"));
  SOLI_ASSIGN_OR_RETURN(info.model_file, reader.text("model_file"));
  info.model_id = reader.text("model_id").value_or("");  // earlier traces have none
  SOLI_ASSIGN_OR_RETURN(info.policy, reader.text("policy"));
  SOLI_ASSIGN_OR_RETURN(const std::string layers, reader.text("moe_layers"));
  SOLI_ASSIGN_OR_RETURN(info.shape.moe_layers, parse_layers(layers));
  const int64_t n_layers = info.shape.n_layers();
  SOLI_RETURN_IF_ERROR(reader.number<int64_t>("n_layers", n_layers, n_layers));
  SOLI_ASSIGN_OR_RETURN(info.shape.n_experts,
                        reader.number<int64_t>("n_experts", 1, TraceShape::kMaxExperts));
  SOLI_ASSIGN_OR_RETURN(info.shape.k, reader.number<int64_t>("k", 1, TraceShape::kMaxExperts));
  SOLI_ASSIGN_OR_RETURN(const int64_t has_logits, reader.number<int64_t>("logits", 0, 1));
  info.shape.has_logits = has_logits == 1;
  if (const Status fits = info.shape.check(); !fits)
    return fail(ErrorKind::kMalformed, "{}", fits.error().message);
  SOLI_ASSIGN_OR_RETURN(info.sampling.share, reader.number<double>("sample", 0, 1));
  SOLI_ASSIGN_OR_RETURN(const std::string sample_of, reader.text("sample_of"));
  info.sampling.of_tokens = sample_of == "tokens";
  SOLI_ASSIGN_OR_RETURN(info.started, reader.number<double>("started", 0, 1e12));
  SOLI_ASSIGN_OR_RETURN(const int64_t is_ended, reader.number<int64_t>("ended", 0, 1));
  info.is_ended = is_ended == 1;
  SOLI_ASSIGN_OR_RETURN(info.n_sampled_out, reader.number<int64_t>("n_sampled_out", 0, kMost));
  SOLI_ASSIGN_OR_RETURN(info.n_dropped, reader.number<int64_t>("n_dropped", 0, kMost));
  return info;
}

}  // namespace soli
