// Any file is refused as a trace with an error, or its rows are what its meta promises; and what is made of
// them, sequences to replay and turns of an expert memory, is as the model and the shape allow.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "observe/trace_accesses.h"
#include "observe/trace_sequences.h"
#include "observe/trace_statistics.h"

namespace {

/// SQLite wants a path. Memory has none that it accepts, so it is a file, the same one for every input.
const std::string& path() {
  static const std::string made = [] {
    std::string name = "/tmp/soli_trace_fuzz_XXXXXX";
    const int descriptor = ::mkstemp(name.data());
    SOLI_CHECK(descriptor >= 0, "{}", name);
    ::close(descriptor);
    return name;
  }();
  return made;
}

void write_input(const uint8_t* data, size_t size) {
  const int descriptor = ::open(path().c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  SOLI_CHECK(descriptor >= 0 && ::write(descriptor, data, size) == static_cast<ssize_t>(size));
  ::close(descriptor);
}

/// True where there is a value.
template <typename T>
bool is_there(const soli::Result<T>& result) {
  if (result) return true;
  SOLI_CHECK(!result.error().message.empty() && soli::is_valid_utf8(result.error().message), "{}",
             result.error().message);
  return false;
}

/// A model that the trace is of.
soli::ModelSpec fitting_model(const soli::TraceShape& shape) {
  soli::ModelSpec spec;
  spec.n_layers = std::min(int64_t{shape.moe_layers.back()} + 1, soli::TraceShape::kMaxLayers);
  spec.n_leading_dense_layers = shape.moe_layers.front();
  spec.vocab_size = 256;
  spec.router.n_experts = shape.n_experts;
  spec.router.experts_per_token = 1;
  return spec;
}

void check_row(const soli::TraceRow& row, const soli::TraceShape& shape) {
  SOLI_CHECK(row.position >= 0 && row.token >= 0);
  SOLI_CHECK(static_cast<int64_t>(row.ids.size()) == shape.n_slots() && row.weights.size() == row.ids.size());
  SOLI_CHECK(row.logits.empty() || static_cast<int64_t>(row.logits.size()) == shape.n_logits());
  for (int64_t layer = 0; layer < shape.n_layers(); ++layer) {
    for (const int16_t id : soli::ids_of_layer(row, shape, layer))
      SOLI_CHECK(id >= 0 && id < shape.n_experts, "{}", id);
  }
}

void read_turns(soli::TraceReader& reader) {
  const auto turns = soli::accesses_of(reader, -1, 3);
  if (!is_there(turns)) return;
  SOLI_CHECK(turns->n_layers() == reader.shape().n_layers() && turns->n_visits() % turns->n_layers() == 0);
  soli::AccessTrace::Reader visits(*turns);
  while (const soli::LayerVisit* visit = visits.next())
    SOLI_CHECK(visit->n_tokens >= 1 && visit->n_tokens <= 3 && visit->experts.size() == visit->calls.size());
}

void read_all(soli::TraceReader& reader) {
  const auto requests = reader.requests();
  is_there(requests);
  const auto rows = reader.for_each_row({}, true, [&](const soli::TraceRow& row) -> soli::Status {
    check_row(row, reader.shape());
    return {};
  });
  SOLI_CHECK(rows || soli::is_valid_utf8(rows.error().message));
  const auto figures = soli::count_trace(reader);
  if (is_there(figures)) SOLI_CHECK(soli::is_valid_utf8(soli::render_text(reader.info(), *figures)));
  read_turns(reader);
  const auto sequences = soli::read_sequences(reader, fitting_model(reader.shape()), -1, true);
  if (!is_there(sequences)) return;
  for (const soli::TraceSequence& sequence : sequences->sequences) {
    const auto choices = soli::read_choices(reader, sequence.request);
    if (is_there(choices)) SOLI_CHECK(choices->n_positions() == static_cast<int64_t>(sequence.tokens.size()));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  write_input(data, size);
  auto reader = soli::TraceReader::open(path());
  if (is_there(reader)) read_all(*reader);
  return 0;
}
