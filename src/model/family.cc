#include "model/family.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace soli {

/// One of each file in families/; the definition is generated (cmake/families.cmake).
std::vector<Family> make_families();

namespace {

const std::vector<Family>& all_families() {
  static const std::vector<Family> families = make_families();
  return families;
}

}  // namespace

int64_t size_of(const ModelSpec& spec, Dim dim) {
  switch (dim) {
    case Dim::kHidden:
      return spec.hidden_size;
    case Dim::kVocab:
      return spec.vocab_size;
    case Dim::kQueryRow:
      return spec.n_heads * spec.projected_key_dim();
    case Dim::kDirectQuery:
      return spec.latent_query_rank > 0 ? 0 : spec.n_heads * spec.projected_key_dim();
    case Dim::kKeyRow:
      return spec.n_kv_heads * spec.head_dim;
    case Dim::kValueRow:
      return spec.n_kv_heads * spec.value_dim;
    case Dim::kMixedRow:
      return spec.n_heads * spec.projected_value_dim();
    case Dim::kHeads:
      return spec.n_heads;
    case Dim::kHeadDim:
      return spec.head_dim;
    case Dim::kQueryLatent:
      return spec.latent_query_rank;
    case Dim::kLatent:
      return spec.latent_rank;
    case Dim::kLatentAndRope:
      return spec.latent_rank + spec.rope_dims;
    case Dim::kUnrotatedKey:
      return spec.latent_key_dim - spec.rope_dims;
    case Dim::kLatentValue:
      return spec.latent_value_dim;
    case Dim::kRopePairs:
      return spec.rope_dims / 2;
    case Dim::kFfnWidth:
      return spec.ffn_width;
    case Dim::kExperts:
      return spec.router.n_experts;
    case Dim::kExpertWidth:
      return spec.expert_width;
    case Dim::kSharedWidth:
      return spec.shared_expert_width;
    case Dim::kOne:
      return 1;
  }
  SOLI_CHECK(false, "unknown dimension");
}

std::string_view name_of(Part part) {
  constexpr std::array<std::string_view, kParts> kNames = {"embedding",      "attention",  "norms",
                                                           "dense ffn",      "router",     "shared experts",
                                                           "routed experts", "output head"};
  return kNames[static_cast<size_t>(part)];
}

bool has_layer(const ModelSpec& spec, Layers layers, int64_t layer) {
  return layers == Layers::kAll || (layers == Layers::kMoe) == spec.is_moe_layer(layer);
}

bool has_key(const Family& family, std::string_view suffix) {
  return std::any_of(family.keys.begin(), family.keys.end(),
                     [&](const KeySlot& key) { return key.suffix == suffix; });
}

bool has_dim(const Family& family, Dim dim) {
  const auto has = [dim](const LinearSlot& slot) { return slot.rows == dim || slot.cols == dim; };
  return std::any_of(family.linears.begin(), family.linears.end(), has);
}

bool has_vector(const Family& family, std::span<const float> GlobalWeights::*member) {
  return std::any_of(family.vectors.begin(), family.vectors.end(), [&](const VectorSlot& slot) {
    return slot.is_global() && std::get<1>(slot.member) == member;
  });
}

const Family* find_family(std::string_view architecture) {
  const auto& families = all_families();
  const auto found = std::find_if(families.begin(), families.end(), [&](const Family& family) {
    return family.defaults.architecture == architecture;
  });
  return found == families.end() ? nullptr : &*found;
}

std::vector<std::string_view> family_names() {
  std::vector<std::string_view> names;
  for (const Family& family : all_families()) names.push_back(family.defaults.architecture);
  return names;
}

}  // namespace soli
