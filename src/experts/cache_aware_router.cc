#include "experts/cache_aware_router.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace soli {

CacheAwareRouter::CacheAwareRouter(const Model& model, const TieredExpertStore& store, float preference)
    : model_(model),
      store_(store),
      context_{model.runtime().team(), model.runtime().kernels()},
      preference_(preference),
      in_memory_(static_cast<size_t>(model.spec().router.n_experts)) {
  SOLI_CHECK(preference >= 1 && preference <= kMostPreference, "{}", preference);
}

void CacheAwareRouter::edit_choice(const RouterView& view, Choice& choice) {
  n_calls_ += choice.n_slots();
  if (preference_ == 1) return;
  store_.find_resident(view.layer, in_memory_);
  row_failed_.assign(view.rows.size(), 0);
  select_experts(context_, *view.spec,
                 {.bias = model_.layer(view.layer).selection_bias,
                  .preferred = in_memory_,
                  .preference = preference_,
                  .layer = view.layer},
                 view.rows, view.logits, view.scores, moved_, row_failed_);
  count(choice, moved_);
  std::swap(choice, moved_);
}

void CacheAwareRouter::count(const Choice& own, const Choice& moved) {
  for (int64_t row = 0; row < own.n_rows(); ++row) {
    const std::span<const int32_t> before = own.ids_of(row);
    for (const int32_t id : moved.ids_of(row))
      n_moved_ += std::find(before.begin(), before.end(), id) == before.end() ? 1 : 0;
  }
}

}  // namespace soli
