#include "engine/token_experts.h"

#include <algorithm>
#include <limits>

namespace soli {
namespace {

constexpr int64_t kMostLayers = 4;
constexpr int64_t kMostFeatures = 512;  // layers * experts
constexpr int64_t kMostBytes = int64_t{8} << 20;
constexpr int64_t kMostTokens = 256;  // of a prompt that are looked at

int64_t layers_looked_at(const ModelSpec& spec) {
  const int64_t most = std::max<int64_t>(1, kMostFeatures / spec.router.n_experts);
  return std::min({kMostLayers, most, spec.n_moe_layers()});
}

int64_t features(const ModelSpec& spec) { return layers_looked_at(spec) * spec.router.n_experts; }

int64_t rows(const ModelSpec& spec) {
  return std::clamp<int64_t>(kMostBytes / features(spec), 1, spec.vocab_size);
}

}  // namespace

int64_t TokenExperts::bytes_needed(const ModelSpec& spec) { return rows(spec) * features(spec); }

Result<TokenExperts> TokenExperts::create(const ModelSpec& spec, Budget& budget) {
  SOLI_ASSIGN_OR_RETURN(Slab counts, Slab::allocate(budget, "token experts", bytes_needed(spec)));
  return TokenExperts(spec, std::move(counts));
}

TokenExperts::TokenExperts(const ModelSpec& spec, Slab counts)
    : n_experts_(spec.router.n_experts),
      n_rows_(rows(spec)),
      place_(static_cast<size_t>(spec.n_layers), -1),
      counts_(std::move(counts)) {
  std::vector<int64_t> moe_layers;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (spec.is_moe_layer(layer)) moe_layers.push_back(layer);
  }
  const auto n_moe = static_cast<int64_t>(moe_layers.size());
  const int64_t n = layers_looked_at(spec);
  for (; n_looked_at_ < n; ++n_looked_at_) {
    const int64_t i = (2 * n_looked_at_ + 1) * n_moe / (2 * n);  // in the middle of equal parts
    place_[static_cast<size_t>(moe_layers[static_cast<size_t>(i)])] = n_looked_at_;
  }
}

void TokenExperts::on_route(const RouterView& view, const Choice& choice) {
  const int64_t place = place_[static_cast<size_t>(view.layer)];
  for (int64_t row = 0; place >= 0 && row < choice.n_rows(); ++row) {
    uint8_t* const counts = reinterpret_cast<uint8_t*>(counts_.data()) +
                            offset_of(view.rows[static_cast<size_t>(row)].token) + place * n_experts_;
    for (const int32_t id : choice.ids_of(row)) {
      if (++counts[id] < std::numeric_limits<uint8_t>::max()) continue;
      for (int64_t e = 0; e < n_experts_; ++e) counts[e] /= 2;  // old calls fade
    }
  }
  if (next_ != nullptr) next_->on_route(view, choice);
}

TokenExperts::Profile TokenExperts::profile_of(std::span<const int32_t> tokens) const {
  const int64_t n_features = n_looked_at_ * n_experts_;
  Profile profile(static_cast<size_t>(n_features));
  const auto n = static_cast<int64_t>(tokens.size());
  const int64_t n_used = std::min(n, kMostTokens);
  int64_t n_known = 0;
  for (int64_t i = 0; i < n_used; ++i) {
    const uint8_t* const counts = reinterpret_cast<const uint8_t*>(counts_.data()) +
                                  offset_of(tokens[static_cast<size_t>(i * n / n_used)]);
    for (int64_t layer = 0; layer < n_looked_at_; ++layer) {
      const uint8_t* const of_layer = counts + layer * n_experts_;
      int64_t sum = 0;
      for (int64_t e = 0; e < n_experts_; ++e) sum += of_layer[e];
      if (sum == 0) continue;
      ++n_known;
      float* const shares = profile.data() + layer * n_experts_;
      for (int64_t e = 0; e < n_experts_; ++e)
        shares[e] += static_cast<float>(of_layer[e]) / static_cast<float>(sum);
    }
  }
  if (n_known == 0) return {};
  const float scale = static_cast<float>(n_looked_at_) / static_cast<float>(n_known);
  for (float& share : profile) share *= scale;
  return profile;
}

double likeness(const TokenExperts::Profile& a, const TokenExperts::Profile& b) {
  double sum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) sum += static_cast<double>(std::min(a[i], b[i]));
  return sum;
}

}  // namespace soli
