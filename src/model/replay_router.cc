#include "model/replay_router.h"

#include <utility>

#include "model/choice_weights.h"

namespace soli {
namespace {

void count_agreement(std::span<const int32_t> own, std::span<const int16_t> recorded,
                     ChoiceAgreement& agreement) {
  int64_t n_same = 0;
  for (const int16_t id : recorded)
    n_same += std::find(own.begin(), own.end(), int32_t{id}) == own.end() ? 0 : 1;
  const auto n_calls = static_cast<int64_t>(recorded.size());
  const bool is_same = n_same == n_calls && own.size() == recorded.size();
  agreement +=
      {.n_choices = 1, .n_same_choices = is_same ? 1 : 0, .n_calls = n_calls, .n_same_calls = n_same};
}

}  // namespace

ChoiceAgreement& ChoiceAgreement::operator+=(const ChoiceAgreement& other) {
  n_choices += other.n_choices;
  n_same_choices += other.n_same_choices;
  n_calls += other.n_calls;
  n_same_calls += other.n_same_calls;
  return *this;
}

ReplayRouter::ReplayRouter(const ModelSpec& spec, bool forces, ReplayWeights weights)
    : forces_(forces), weights_(weights) {
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    const bool has_experts = spec.is_moe_layer(layer);
    place_.push_back(has_experts ? static_cast<int64_t>(agreement_.size()) : -1);
    if (has_experts) agreement_.emplace_back();
  }
}

void ReplayRouter::add(RequestId request, RecordedChoices choices) {
  choices_.insert_or_assign(request, std::move(choices));
}

void ReplayRouter::append_forced(const RouterView& view, int64_t row, std::span<const int16_t> ids,
                                 std::span<const float> weights) {
  forced_.ids.insert(forced_.ids.end(), ids.begin(), ids.end());
  forced_.weights.insert(forced_.weights.end(), weights.begin(), weights.end());
  if (weights_ == ReplayWeights::kRouter) {
    weigh_experts(*view.spec, view.logits.row(row), view.scores.row(row),
                  std::span(forced_.ids).last(ids.size()), std::span(forced_.weights).last(ids.size()));
  }
  forced_.row_begin.push_back(static_cast<int32_t>(forced_.ids.size()));
}

void ReplayRouter::edit_choice(const RouterView& view, Choice& choice) {
  const int64_t moe_layer = place_[static_cast<size_t>(view.layer)];
  forced_.row_begin.assign(1, 0);
  forced_.ids.clear();
  forced_.weights.clear();
  for (int64_t row = 0; row < choice.n_rows(); ++row) {
    const BatchRow& of = view.rows[static_cast<size_t>(row)];
    const auto found = choices_.find(of.request);
    SOLI_CHECK(found != choices_.end(), "request {} was not added", of.request);
    const std::span<const int16_t> ids = found->second.ids(of.position, moe_layer);
    count_agreement(choice.ids_of(row), ids, agreement_[static_cast<size_t>(moe_layer)]);
    if (forces_) append_forced(view, row, ids, found->second.weights(of.position, moe_layer));
  }
  if (forces_) std::swap(choice, forced_);
}

}  // namespace soli
