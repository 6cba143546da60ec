// Any file of heat and any trace of experts is refused with an error, or holds what its header promises.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "experts/access_trace.h"
#include "experts/belady.h"
#include "experts/heat_file.h"

namespace {

void check_error(const soli::Error& error) {
  SOLI_CHECK(!error.message.empty() && soli::is_valid_utf8(error.message), "{}", error.message);
}

void read_heat(std::string_view text) {
  const auto heat = soli::parse_heat(text, "a file", {"a model", 2, 3});
  if (!heat) return check_error(heat.error());
  SOLI_CHECK(heat->n_layers() == 2 && heat->n_experts() == 3 && heat->tokens() >= 0);
  for (int64_t i = 0; i < 6; ++i) {
    const double value = heat->at(i / 3, i % 3);
    SOLI_CHECK(std::isfinite(value) && value >= 0, "{}", value);
  }
  SOLI_CHECK(soli::hottest_first(*heat).size() <= 6);
}

void check_visit(const soli::AccessTrace& trace, const soli::LayerVisit& visit) {
  SOLI_CHECK(visit.layer >= 0 && visit.layer < trace.n_layers() && visit.n_tokens > 0);
  SOLI_CHECK(visit.experts.size() == visit.calls.size());
  int64_t previous = -1;
  for (size_t i = 0; i < visit.experts.size(); ++i) {
    SOLI_CHECK(visit.experts[i] > previous && visit.experts[i] < trace.n_experts());
    SOLI_CHECK(visit.calls[i] > 0 && visit.calls[i] <= visit.n_tokens);
    previous = visit.experts[i];
  }
}

void read_trace(std::span<const std::byte> bytes) {
  const auto trace = soli::AccessTrace::parse(bytes, "a file");
  if (!trace) return check_error(trace.error());
  soli::AccessTrace again(trace->n_layers(), trace->n_experts());
  soli::AccessTrace::Reader reader(*trace);
  int64_t n_visits = 0;
  for (; const soli::LayerVisit* visit = reader.next(); ++n_visits) {
    check_visit(*trace, *visit);
    again.record(*visit);
  }
  SOLI_CHECK(n_visits == trace->n_visits() && again.bytes() <= trace->bytes());
  const soli::CacheCounts bound = soli::belady_counts(*trace, 4);
  SOLI_CHECK(bound.hits <= bound.requests);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read_heat({reinterpret_cast<const char*>(data), size});
  read_trace(std::as_bytes(std::span(data, size)));
  return 0;
}
