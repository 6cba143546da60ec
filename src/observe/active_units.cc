#include "observe/active_units.h"

#include <bit>
#include <cmath>

#include "base/check.h"

namespace soli {
namespace {

constexpr int64_t kWordBits = 64;

int64_t words_of(int64_t n_units) { return (n_units + kWordBits - 1) / kWordBits; }

int64_t common_width(const ModelSpec& spec, int64_t layer) {
  return spec.is_moe_layer(layer) ? spec.shared_expert_width : spec.ffn_width;
}

int64_t words_of_layer(const ModelSpec& spec, int64_t layer) {
  const int64_t routed = spec.is_moe_layer(layer) ? spec.router.n_experts * words_of(spec.expert_width) : 0;
  return routed + words_of(common_width(spec, layer));
}

}  // namespace

ActiveUnits::ActiveUnits(const ModelSpec& spec, double threshold)
    : spec_(spec), n_experts_(spec.router.n_experts), threshold_(threshold) {
  first_word_.push_back(0);
  for (int64_t layer = 0; layer < spec.n_layers; ++layer)
    first_word_.push_back(first_word_.back() + static_cast<size_t>(words_of_layer(spec, layer)));
  ever_.resize(first_word_.back());
}

int64_t ActiveUnits::bytes_needed(const ModelSpec& spec) {
  int64_t words = spec.n_layers + 1;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) words += words_of_layer(spec, layer);
  return words * static_cast<int64_t>(sizeof(uint64_t));
}

ActiveUnits::Place ActiveUnits::place_of(int64_t layer, int64_t expert) const {
  const size_t begin = first_word_[static_cast<size_t>(layer)];
  const int64_t n_before = spec_.is_moe_layer(layer) ? expert : 0;
  SOLI_CHECK(expert >= 0 && expert <= n_experts_, "expert {}", expert);
  return {begin + static_cast<size_t>(n_before * words_of(spec_.expert_width)),
          expert == common() ? common_width(spec_, layer) : spec_.expert_width};
}

int64_t ActiveUnits::add(int64_t layer, int64_t expert, std::span<const float> inner) {
  const Place place = place_of(layer, expert);
  SOLI_CHECK(static_cast<int64_t>(inner.size()) == place.n_units, "{} units", inner.size());
  double squares = 0;
  for (const float h : inner) squares += static_cast<double>(h) * static_cast<double>(h);
  const double least = threshold_ * std::sqrt(squares / static_cast<double>(inner.size()));
  int64_t n_active = 0;
  for (size_t i = 0; i < inner.size(); ++i) {
    if (!(std::abs(static_cast<double>(inner[i])) > least)) continue;
    ++n_active;
    ever_[place.first_word + i / kWordBits] |= uint64_t{1} << (i % kWordBits);
  }
  return n_active;
}

int64_t ActiveUnits::n_units(int64_t layer, int64_t expert) const { return place_of(layer, expert).n_units; }

int64_t ActiveUnits::n_dead(int64_t layer, int64_t expert) const {
  const Place place = place_of(layer, expert);
  int64_t n_alive = 0;
  for (int64_t word = 0; word < words_of(place.n_units); ++word)
    n_alive += std::popcount(ever_[place.first_word + static_cast<size_t>(word)]);
  return place.n_units - n_alive;
}

}  // namespace soli
