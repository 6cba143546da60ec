#pragma once

// What a trace holds, and how (docs/tracing.md): one SQLite file, in which each token has a row.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/spec.h"

namespace soli {

inline constexpr int64_t kTraceVersion = 1;

/// The sizes of a row. Slots are experts of a token in one layer, in order of falling score; those that are
/// not used have expert -1 and weight 0.
struct TraceShape {
  // Wide around every published model; what a hostile file may claim stays small.
  static constexpr int64_t kMaxLayers = 4096;
  static constexpr int64_t kMaxExperts = 32'767;           // ids have 16 bits with sign
  static constexpr int64_t kMaxSlots = int64_t{1} << 20;   // layers * k
  static constexpr int64_t kMaxLogits = int64_t{1} << 22;  // layers * experts

  std::vector<int32_t> moe_layers = {};  // among all layers, ascending
  int64_t n_experts = 0;
  int64_t k = 0;  // slots per layer
  bool has_logits = false;

  /// With room for `k` experts of a token. Fails with kInvalidArgument for a model without experts, or with
  /// more of them than a trace can hold.
  static Result<TraceShape> of_model(const ModelSpec& spec, int64_t k, bool has_logits);
  /// Fails with kInvalidArgument, naming what is out of range.
  Status check() const;

  int64_t n_layers() const { return static_cast<int64_t>(moe_layers.size()); }
  int64_t n_slots() const { return n_layers() * k; }
  int64_t n_logits() const { return has_logits ? n_layers() * n_experts : 0; }
  int64_t ids_bytes() const { return n_slots() * static_cast<int64_t>(sizeof(int16_t)); }
  int64_t weights_bytes() const { return n_slots() * static_cast<int64_t>(sizeof(float)); }
  int64_t logits_bytes() const { return n_logits() * static_cast<int64_t>(sizeof(float)); }
};

/// Which tokens are recorded: a share of the requests, each whole, or of all tokens.
struct TraceSampling {
  double share = 1;
  bool of_tokens = false;

  /// A function of the numbers alone, so that two runs of the same requests record the same.
  bool takes(uint64_t request, int64_t position) const;
};

/// What there is about a trace as a whole.
struct TraceInfo {
  TraceShape shape = {};
  std::string model = {};         // general.name
  std::string architecture = {};  // general.architecture
  std::string model_file = {};    // path, as it was given
  std::string model_id = {};      // of model/model_id.h; "": not known
  std::string policy = {};        // of the command, as docs/steering.md writes it in JSON; "{}": exact
  std::string soli = {};          // version
  TraceSampling sampling = {};
  double started = 0;         // seconds since 1970
  bool is_ended = false;      // else it is still written, or its writer was killed
  int64_t n_sampled_out = 0;  // tokens that sampling left out
  int64_t n_dropped = 0;      // tokens that were lost, since the buffer was full
};

/// A request of a trace.
struct TraceRequest {
  uint64_t id = 0;
  double started = 0;  // seconds since 1970
  int64_t n_prompt = 0;
  std::string policy = {};  // as in TraceInfo
};

/// Which window of which text a request read, as `soli profile` cuts them.
struct TraceWindow {
  uint64_t request = 0;
  std::string domain = {};
  int64_t number = 0;          // of the domain's windows
  int64_t first_position = 0;  // that is counted: 1 where BOS comes first
};

/// A row; valid until the next one is read.
struct TraceRow {
  uint64_t request = 0;
  int64_t position = 0;
  int32_t token = 0;
  bool is_cached = false;               // not computed for this request
  std::span<const int16_t> ids = {};    // [layers][k]
  std::span<const float> weights = {};  // [layers][k]
  std::span<const float> logits = {};   // [layers][experts], or empty
};

/// Of the wall clock.
double seconds_since_1970();

/// The tables, one CREATE statement each.
struct TraceTable {
  const char* name;
  const char* sql;
};
std::span<const TraceTable> trace_tables();
/// The table "windows", which only traces of texts that were cut have.
const TraceTable& trace_windows_table();

/// Rows of the table "meta".
struct TraceMeta {
  std::string key;
  std::string value;
};
std::vector<TraceMeta> to_meta(const TraceInfo& info);
/// Fails with kMalformed, naming the key, for what is not there or cannot be.
Result<TraceInfo> from_meta(const std::vector<TraceMeta>& meta);

}  // namespace soli
