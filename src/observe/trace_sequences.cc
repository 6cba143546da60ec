#include "observe/trace_sequences.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace soli {
namespace {

/// Why tokens may be missing, as far as the trace knows.
std::string why_incomplete(const TraceInfo& info) {
  if (info.n_dropped > 0) {
    return fmt::format("; {} tokens found no room in the buffer of the run that wrote it (--trace-buffer)",
                       info.n_dropped);
  }
  if (info.sampling.of_tokens && info.sampling.share < 1) {
    return fmt::format("; a share of {} of the tokens was recorded (--trace-sample-of tokens)",
                       info.sampling.share);
  }
  return "";
}

/// "4 layers: 0,1,2,3", of many the first ones.
std::string describe_layers(const TraceShape& shape) {
  constexpr size_t kShown = 64;
  const std::span layers = std::span(shape.moe_layers).first(std::min(shape.moe_layers.size(), kShown));
  return fmt::format("{} layers: {}{}", shape.n_layers(), fmt::join(layers, ","),
                     layers.size() < shape.moe_layers.size() ? ",..." : "");
}

/// Gathers rows into sequences.
class SequenceReader {
 public:
  SequenceReader(const TraceReader& reader, const ModelSpec& spec, bool skips_incomplete)
      : reader_(reader), spec_(spec), skips_incomplete_(skips_incomplete) {}

  Status add(const TraceRow& row) {
    if (!is_begun_ || row.request != now_.request) {
      end();
      is_begun_ = true;
      now_.request = row.request;
    }
    SOLI_RETURN_IF_ERROR(check_row(row));
    const auto expected = static_cast<int64_t>(now_.tokens.size());
    if (is_whole_ && row.position != expected) {
      if (!skips_incomplete_) return is_missing(row.request, expected);
      is_whole_ = false;
    }
    if (is_whole_) now_.tokens.push_back(row.token);
    return {};
  }

  TraceSequences finish() {
    end();
    return std::move(result_);
  }

 private:
  void end() {
    if (is_begun_ && is_whole_) result_.sequences.push_back(std::move(now_));
    result_.n_skipped += is_begun_ && !is_whole_ ? 1 : 0;
    now_ = {};
    is_begun_ = false;
    is_whole_ = true;
  }

  tl::unexpected<Error> is_missing(uint64_t request, int64_t position) const {
    return fail(
        ErrorKind::kInvalidArgument,
        "{}: request {}: position {} is not in the trace, and a replay needs every token from position "
        "0 on{}; --skip-incomplete leaves such requests out",
        reader_.path(), request, position, why_incomplete(reader_.info()));
  }

  Status check_row(const TraceRow& row) const {
    const auto wrong = [&](const std::string& what) {
      return fail(ErrorKind::kMalformed, "{}: request {}, position {}: {}", reader_.path(), row.request,
                  row.position, what);
    };
    if (row.token >= spec_.vocab_size) {
      return wrong(
          fmt::format("token {} is not in the model's vocabulary of {} tokens", row.token, spec_.vocab_size));
    }
    const TraceShape& shape = reader_.shape();
    for (int64_t l = 0; l < shape.n_layers(); ++l) {
      const auto weights = weights_of_layer(row, shape, l);
      const auto below = std::find_if(weights.begin(), weights.end(), [](float w) { return w < 0; });
      if (below == weights.end()) continue;
      const auto slot = static_cast<size_t>(below - weights.begin());
      return wrong(fmt::format("the weight of expert {} in layer {} is {}; 0 or more is allowed",
                               ids_of_layer(row, shape, l)[slot], shape.moe_layers[static_cast<size_t>(l)],
                               *below));
    }
    return {};
  }

  const TraceReader& reader_;
  const ModelSpec& spec_;
  const bool skips_incomplete_;
  TraceSequences result_;
  TraceSequence now_;
  bool is_begun_ = false;
  bool is_whole_ = true;
};

}  // namespace

int64_t TraceSequences::n_tokens() const {
  int64_t n = 0;
  for (const TraceSequence& sequence : sequences) n += static_cast<int64_t>(sequence.tokens.size());
  return n;
}

int64_t TraceSequences::longest() const {
  int64_t longest = 0;
  for (const TraceSequence& sequence : sequences)
    longest = std::max(longest, static_cast<int64_t>(sequence.tokens.size()));
  return longest;
}

Status check_trace_fits(const TraceReader& reader, const ModelSpec& spec) {
  const TraceShape& of_trace = reader.shape();
  const Result<TraceShape> of_model = TraceShape::of_model(spec, 1, false);
  if (!of_model) return in_context(reader.path(), of_model.error());
  if (of_trace.moe_layers != of_model->moe_layers) {
    return fail(ErrorKind::kInvalidArgument,
                "{}: is of a model that has experts in {}; this one has them in {}", reader.path(),
                describe_layers(of_trace), describe_layers(*of_model));
  }
  if (of_trace.n_experts != of_model->n_experts) {
    return fail(ErrorKind::kInvalidArgument, "{}: is of a model with {} experts per layer; this one has {}",
                reader.path(), of_trace.n_experts, of_model->n_experts);
  }
  return {};
}

Result<TraceSequences> read_sequences(TraceReader& reader, const ModelSpec& spec, int64_t request,
                                      bool skips_incomplete) {
  SOLI_RETURN_IF_ERROR(check_trace_fits(reader, spec));
  SequenceReader sequences(reader, spec, skips_incomplete);
  SOLI_RETURN_IF_ERROR(reader.for_each_row({.request = request}, false,
                                           [&](const TraceRow& row) { return sequences.add(row); }));
  TraceSequences result = sequences.finish();
  if (!result.sequences.empty()) return result;
  return fail(ErrorKind::kInvalidArgument, "{}: {}", reader.path(),
              result.n_skipped > 0 ? fmt::format("none of its {} requests is whole", result.n_skipped)
              : request >= 0       ? fmt::format("has no token of request {}", request)
                                   : "has no token");
}

Result<RecordedChoices> read_choices(TraceReader& reader, uint64_t request) {
  RecordedChoices choices(reader.shape().n_layers(), reader.shape().k);
  SOLI_RETURN_IF_ERROR(reader.for_each_row({.request = static_cast<int64_t>(request)}, false,
                                           [&](const TraceRow& row) -> Status {
                                             choices.append(row.ids, row.weights);
                                             return {};
                                           }));
  return choices;
}

}  // namespace soli
