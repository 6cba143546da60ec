#include "observe/diagnosis_recorder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace soli {
namespace {

double norm_of(const float* x, int64_t n) {
  double squares = 0;
  for (int64_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return std::sqrt(squares);
}

float ratio_of(double part, double whole) { return whole > 0 ? static_cast<float>(part / whole) : 0; }

/// Calls of a token in all layers, at most.
int64_t most_calls(const ModelSpec& spec, const DiagnosisRecorder::Options& options) {
  const int64_t k = std::max(options.max_experts_per_token, spec.router.experts_per_token);
  return spec.n_moe_layers() * k + spec.n_layers;
}

std::span<const float> row_of(MatrixView<const float> matrix, int64_t row) {
  return {matrix.row(row), static_cast<size_t>(matrix.cols)};
}

}  // namespace

const char* name_of(FfnKind kind) {
  switch (kind) {
    case FfnKind::kRouted:
      return "routed";
    case FfnKind::kShared:
      return "shared";
    case FfnKind::kDense:
      return "dense";
  }
  return "routed";
}

std::span<const FfnCall> TokenDiagnosis::calls_of(const LayerPath& path) const {
  return std::span(calls).subspan(static_cast<size_t>(path.first_call), static_cast<size_t>(path.n_calls));
}

std::span<const SaidToken> TokenDiagnosis::said_by(int64_t call) const {
  return std::span(said).subspan(static_cast<size_t>(call * n_top), static_cast<size_t>(n_top));
}

DiagnosisRecorder::DiagnosisRecorder(const Model& model, Options options)
    : spec_(model.spec()), options_(std::move(options)), units_(spec_, options_.active_threshold) {
  diagnosis_.n_layers = spec_.n_layers;
  diagnosis_.tokens.reserve(static_cast<size_t>(options_.max_tokens));
  diagnosis_.paths.reserve(static_cast<size_t>(options_.max_tokens * spec_.n_layers));
  const auto n_calls = static_cast<size_t>(options_.max_tokens * most_calls(spec_, options_));
  diagnosis_.calls.reserve(n_calls);
  if (options_.n_top == 0) return;
  lens_.emplace(model, options_.activations, options_.n_top);
  diagnosis_.n_top = lens_->n_top();
  diagnosis_.said.reserve(n_calls * static_cast<size_t>(diagnosis_.n_top));
  waiting_.resize(static_cast<size_t>(LogitLens::kMaxRows * spec_.hidden_size));
}

int64_t DiagnosisRecorder::bytes_needed(const ModelSpec& spec, const Options& options) {
  const auto per_call =
      static_cast<int64_t>(sizeof(FfnCall)) + options.n_top * static_cast<int64_t>(sizeof(SaidToken));
  const int64_t per_token =
      most_calls(spec, options) * per_call + spec.n_layers * static_cast<int64_t>(sizeof(LayerPath));
  const int64_t waiting = LogitLens::kMaxRows * spec.hidden_size * static_cast<int64_t>(sizeof(float));
  const int64_t lens = options.n_top > 0 ? LogitLens::bytes_needed(spec) + waiting : 0;
  return options.max_tokens * per_token + ActiveUnits::bytes_needed(spec) + lens;
}

/// Rows of one sequence come in ascending order of position.
void DiagnosisRecorder::on_ffn(const FfnView& view) {
  for (int64_t row = 0; row < view.residual.rows; ++row) {
    const BatchRow& from = view.rows[static_cast<size_t>(row)];
    if (from.position >= options_.max_tokens) continue;
    if (from.position >= diagnosis_.n_tokens()) {
      SOLI_CHECK(from.position == diagnosis_.n_tokens(), "position {} after {}", from.position,
                 diagnosis_.n_tokens());
      diagnosis_.tokens.push_back(from.token);
      diagnosis_.paths.resize(diagnosis_.paths.size() + static_cast<size_t>(spec_.n_layers));
    }
    add_row(view, row);
    ++n_done_;
  }
  say_waiting();
  if (options_.on_progress) options_.on_progress(n_done_);
}

void DiagnosisRecorder::add_row(const FfnView& view, int64_t row) {
  const int64_t position = view.rows[static_cast<size_t>(row)].position;
  LayerPath path;
  const double residual = norm_of(view.residual.row(row), view.residual.cols);
  path.residual_norm = static_cast<float>(residual);
  path.added_ratio = ratio_of(
      std::abs(static_cast<double>(view.residual_scale)) * norm_of(view.added.row(row), view.added.cols),
      residual);
  path.first_call = static_cast<int64_t>(diagnosis_.calls.size());
  diagnosis_.paths[static_cast<size_t>(position * spec_.n_layers + view.layer)] = path;
  if (view.choice != nullptr) {
    for (int32_t slot = view.choice->row_begin[static_cast<size_t>(row)];
         slot < view.choice->row_begin[static_cast<size_t>(row) + 1]; ++slot) {
      const FfnCall call = {.kind = FfnKind::kRouted,
                            .expert = view.choice->ids[static_cast<size_t>(slot)],
                            .weight = view.choice->weights[static_cast<size_t>(slot)]};
      add_call(view, row, call, view.expert_outputs.row(slot), row_of(view.expert_inner, slot));
    }
  }
  if (view.common_outputs.rows > 0) {
    const FfnCall call = {.kind = view.choice == nullptr ? FfnKind::kDense : FfnKind::kShared,
                          .weight = view.common_weights.rows > 0 ? *view.common_weights.row(row) : 1};
    add_call(view, row, call, view.common_outputs.row(row), row_of(view.common_inner, row));
  }
}

void DiagnosisRecorder::add_call(const FfnView& view, int64_t row, FfnCall call, const float* y,
                                 std::span<const float> inner) {
  const int64_t hidden = view.residual.cols;
  LayerPath& path = diagnosis_.paths[static_cast<size_t>(
      view.rows[static_cast<size_t>(row)].position * spec_.n_layers + view.layer)];
  const float factor = view.residual_scale * call.weight;
  call.residual_ratio = ratio_of(std::abs(static_cast<double>(factor)) * norm_of(y, hidden),
                                 norm_of(view.residual.row(row), hidden));
  const int64_t place = call.kind == FfnKind::kRouted ? call.expert : units_.common();
  call.active_share =
      ratio_of(static_cast<double>(units_.add(view.layer, place, inner)), static_cast<double>(inner.size()));
  diagnosis_.calls.push_back(call);
  ++path.n_calls;
  if (!lens_) return;
  float* const c = waiting_.data() + n_waiting_++ * hidden;
  std::transform(y, y + hidden, c, [factor](float value) { return factor * value; });
  if (n_waiting_ == LogitLens::kMaxRows) say_waiting();
}

/// Says of the calls that wait, in their order.
void DiagnosisRecorder::say_waiting() {
  if (n_waiting_ == 0) return;
  const auto n_said = static_cast<size_t>(n_waiting_ * diagnosis_.n_top);
  diagnosis_.said.resize(diagnosis_.said.size() + n_said);
  lens_->say({waiting_.data(), n_waiting_, spec_.hidden_size}, std::span(diagnosis_.said).last(n_said));
  n_waiting_ = 0;
}

TokenDiagnosis DiagnosisRecorder::finish() && {
  TokenDiagnosis result = std::move(diagnosis_);
  const auto n_places = static_cast<size_t>(units_.common()) + 1;
  for (int64_t layer = 0; layer < result.n_layers; ++layer) {
    std::vector<UsedFfn> used(n_places);
    for (int64_t position = 0; position < result.n_tokens(); ++position) {
      for (const FfnCall& call : result.calls_of(result.path(position, layer))) {
        UsedFfn& ffn = used[call.kind == FfnKind::kRouted ? static_cast<size_t>(call.expert) : n_places - 1];
        ffn.kind = call.kind;
        ffn.expert = call.expert;
        ffn.active_share += static_cast<double>(call.active_share);
        ++ffn.n_calls;
      }
    }
    for (size_t place = 0; place < n_places; ++place) {
      if (used[place].n_calls == 0) continue;
      used[place].layer = layer;
      used[place].active_share /= static_cast<double>(used[place].n_calls);
      used[place].n_units = units_.n_units(layer, static_cast<int64_t>(place));
      used[place].n_dead = units_.n_dead(layer, static_cast<int64_t>(place));
      result.used.push_back(used[place]);
    }
  }
  return result;
}

}  // namespace soli
