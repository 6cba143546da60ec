#include "experts/access_trace.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/check.h"
#include "base/units.h"
#include "io/file.h"
#include "io/file_writer.h"
#include "model/model_file.h"

namespace soli {
namespace {

constexpr std::string_view kMagic = "soli-trace";
constexpr int64_t kVersion = 1;
constexpr int64_t kMaxTokens = int64_t{1} << 30;
constexpr int64_t kMaxExpertsOfAllLayers = int64_t{1} << 20;  // bounds what is counted per expert

/// What stands before the visits, after kMagic.
struct Head {
  int64_t version = kVersion;
  int64_t n_layers, n_experts, n_visits, n_dropped, n_bytes;
};
constexpr size_t kHeadBytes = kMagic.size() + sizeof(Head);

/// Seven bits per byte, from the lowest, the last byte without the eighth bit.
void append_number(std::vector<uint8_t>& bytes, int64_t number) {
  auto rest = static_cast<uint64_t>(number);
  for (; rest >= 0x80; rest >>= 7) bytes.push_back(static_cast<uint8_t>(rest | 0x80));
  bytes.push_back(static_cast<uint8_t>(rest));
}

class NumberReader {
 public:
  NumberReader(std::span<const uint8_t> bytes, size_t& position) : bytes_(bytes), position_(position) {}

  Result<int64_t> next(const char* what, int64_t min, int64_t max) {
    uint64_t number = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      if (position_ == bytes_.size()) return fail(ErrorKind::kMalformed, "it ends within {}", what);
      const uint8_t byte = bytes_[position_++];
      number |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte >= 0x80) continue;
      const auto value = static_cast<int64_t>(number);
      if (value >= min && value <= max) return value;
      return fail(ErrorKind::kMalformed, "{} is {}; {} to {} is allowed", what, value, min, max);
    }
    return fail(ErrorKind::kMalformed, "{} has more than 35 bits", what);
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t& position_;
};

Status check_head(const Head& head, size_t n_bytes) {
  const auto in = [](const char* what, int64_t value, int64_t min, int64_t max) -> Status {
    if (value >= min && value <= max) return {};
    return fail(ErrorKind::kMalformed, "{} is {}; {} to {} is allowed", what, value, min, max);
  };
  SOLI_RETURN_IF_ERROR(in("number of layers", head.n_layers, 1, kMaxLayers));
  SOLI_RETURN_IF_ERROR(in("number of experts", head.n_experts, 1, kMaxExperts));
  SOLI_RETURN_IF_ERROR(
      in("number of experts of all layers", head.n_layers * head.n_experts, 1, kMaxExpertsOfAllLayers));
  SOLI_RETURN_IF_ERROR(in("number of visits", head.n_visits, 0, static_cast<int64_t>(n_bytes)));
  SOLI_RETURN_IF_ERROR(
      in("number of dropped visits", head.n_dropped, 0, std::numeric_limits<int64_t>::max()));
  if (head.n_bytes != static_cast<int64_t>(n_bytes)) {
    return fail(ErrorKind::kMalformed, "{} bytes of visits follow where {} are announced", n_bytes,
                head.n_bytes);
  }
  return {};
}

}  // namespace

AccessTrace::AccessTrace(int64_t n_layers, int64_t n_experts, int64_t max_bytes)
    : n_layers_(n_layers), n_experts_(n_experts), max_bytes_(max_bytes) {}

// A visit: 2 * layer, plus 1 where it has one row, and so one call of each expert; else its rows; the number
// of experts; the first of them, and of the others the distances less 1; and, unless it has one row, the
// calls.
void AccessTrace::record(const LayerVisit& visit) {
  const size_t before = bytes_.size();
  const bool one_row = visit.n_tokens == 1;
  append_number(bytes_, 2 * visit.layer + (one_row ? 1 : 0));
  if (!one_row) append_number(bytes_, visit.n_tokens);
  append_number(bytes_, static_cast<int64_t>(visit.experts.size()));
  int32_t next = 0;
  for (const int32_t expert : visit.experts) {
    append_number(bytes_, expert - next);
    next = expert + 1;
  }
  for (size_t i = 0; i < visit.calls.size() && !one_row; ++i) append_number(bytes_, visit.calls[i]);
  if (n_dropped_ == 0 && static_cast<int64_t>(bytes_.size()) <= max_bytes_) {
    ++n_visits_;
  } else {
    ++n_dropped_;
    bytes_.resize(before);
  }
}

Status AccessTrace::Reader::read() {
  NumberReader numbers(trace_.bytes_, position_);
  SOLI_ASSIGN_OR_RETURN(const int64_t head, numbers.next("layer", 0, 2 * trace_.n_layers_ - 1));
  visit_.layer = head / 2;
  visit_.n_tokens = 1;
  const bool one_row = head % 2 == 1;
  if (!one_row) {
    SOLI_ASSIGN_OR_RETURN(visit_.n_tokens, numbers.next("rows", 1, kMaxTokens));
  }
  SOLI_ASSIGN_OR_RETURN(const int64_t n, numbers.next("number of experts", 0, trace_.n_experts_));
  experts_.resize(static_cast<size_t>(n));
  calls_.assign(static_cast<size_t>(n), 1);
  int64_t next = 0;
  for (int32_t& expert : experts_) {
    SOLI_ASSIGN_OR_RETURN(const int64_t distance, numbers.next("expert", 0, trace_.n_experts_ - 1 - next));
    expert = static_cast<int32_t>(next + distance);
    next = expert + 1;
  }
  for (size_t i = 0; i < calls_.size() && !one_row; ++i) {
    SOLI_ASSIGN_OR_RETURN(const int64_t calls, numbers.next("calls", 1, visit_.n_tokens));
    calls_[i] = static_cast<int32_t>(calls);
  }
  visit_.experts = experts_;
  visit_.calls = calls_;
  return {};
}

const LayerVisit* AccessTrace::Reader::next() {
  if (position_ == trace_.bytes_.size()) return nullptr;
  const Status status = read();
  SOLI_CHECK(status.has_value(), "{}", status.error().message);
  return &visit_;
}

Status AccessTrace::save(const std::string& path) const {
  const Head head{kVersion, n_layers_, n_experts_, n_visits_, n_dropped_, bytes()};
  SOLI_ASSIGN_OR_RETURN(FileWriter writer, FileWriter::create(path));
  SOLI_RETURN_IF_ERROR(writer.append(std::as_bytes(std::span(kMagic))));
  SOLI_RETURN_IF_ERROR(writer.append(std::as_bytes(std::span(&head, 1))));
  SOLI_RETURN_IF_ERROR(writer.append(std::as_bytes(std::span(bytes_))));
  return writer.commit();
}

Result<AccessTrace> AccessTrace::load(const std::string& path) {
  SOLI_ASSIGN_OR_RETURN(const std::string content,
                        read_file(path, kMaxBytes + static_cast<int64_t>(kHeadBytes)));
  return parse(std::as_bytes(std::span(content)), path);
}

Result<AccessTrace> AccessTrace::parse(std::span<const std::byte> bytes, const std::string& name) {
  const std::span<const std::byte> magic = std::as_bytes(std::span(kMagic));
  if (bytes.size() < kHeadBytes || !std::equal(magic.begin(), magic.end(), bytes.begin()))
    return fail(ErrorKind::kMalformed, "{}: is no trace of soli's: it does not begin with '{}'", name,
                kMagic);
  Head head;
  std::memcpy(&head, bytes.data() + kMagic.size(), sizeof head);
  if (head.version != kVersion) {
    return fail(ErrorKind::kUnsupported, "{}: is a trace of version {}; {} is read here", name, head.version,
                kVersion);
  }
  const std::span<const std::byte> visits = bytes.subspan(kHeadBytes);
  if (const Status status = check_head(head, visits.size()); !status) return in_context(name, status.error());
  AccessTrace trace(head.n_layers, head.n_experts);
  trace.n_visits_ = head.n_visits;
  trace.n_dropped_ = head.n_dropped;
  const auto* const begin = reinterpret_cast<const uint8_t*>(visits.data());
  trace.bytes_.assign(begin, begin + visits.size());
  if (const Status status = trace.check_visits(); !status) return in_context(name, status.error());
  return trace;
}

Status AccessTrace::check_visits() const {
  Reader reader(*this);
  int64_t n = 0;
  for (; reader.position_ < bytes_.size(); ++n) {
    const size_t begin = reader.position_;
    if (const Status status = reader.read(); !status)
      return in_context(fmt::format("visit {} at byte {}", n, kHeadBytes + begin), status.error());
  }
  if (n == n_visits_) return {};
  return fail(ErrorKind::kMalformed, "has {} visits where {} are announced", n, n_visits_);
}

}  // namespace soli
