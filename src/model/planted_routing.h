#pragma once

// Synthetic models whose routing is known, so that what measures routing can be measured itself.

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/spec.h"

namespace soli {

/// What is planted, in every layer. An alphabet of 62 characters (a-z, A-Z, 0-9) is cut into one block for
/// each domain; a text in the letters of a block is of that domain.
struct PlantedSpec {
  int64_t n_domains = 3;
  int64_t n_per_domain = 1;  // experts that the tokens of a domain choose, and no others
  int64_t n_hot = 1;         // experts that every token chooses
  int64_t n_dead = 2;        // experts that none does
  bool is_random = false;    // nothing of all that: the null model
};
inline constexpr int64_t kMaxPlantedDomains = 8;

/// "" (the default) or "random" and "domains=3,per-domain=1,hot=1,dead=2", in any order. Fails naming the
/// part.
Result<PlantedSpec> parse_planted(std::string_view text);

/// How it is done. Embeddings hold orthogonal directions of +-1 (rows of a Hadamard matrix of order 16,
/// repeated): c that is in every token, and u_j in the letters of domain j. Beside that, the i-th letter of
/// every block has the same random part, orthogonal to these directions. So texts that draw letters evenly
/// differ between domains in u_j alone. A router's row is random, with the directions taken out, plus: for a
/// hot expert 5 c, for a dead one -12 c, for one of domain j -4 c + 8 u_j, in units of the logit that comes
/// of it, where random parts give one of some +-0.6. Experts and attention write a tenth of what they do
/// elsewhere, so that this holds in all layers. In the null model there is no u_j, and routers are random.
class PlantedRouting {
 public:
  /// Fails with kInvalidArgument where the model is dense, chooses by sigmoids or in groups, has a hidden
  /// size that is no multiple of 16, or too few experts per token or per layer.
  static Result<PlantedRouting> create(const PlantedSpec& planted, const ModelSpec& spec, uint64_t seed);

  /// Rows as they are drawn become rows as they are wanted. `token` is the byte of a letter, or any other id.
  void edit_embedding(int64_t token, std::span<float> row) const;
  void edit_router(int64_t layer, int64_t expert, std::span<float> row) const;

  /// {"random":false,"domains":[{"name":"domain0","letters":"abc..."}],"layers":[{"layer":0,"hot":[3],"dead":
  /// [1,7],"domains":[[2],[5],[0]]}]}
  nlohmann::ordered_json truth() const;

 private:
  enum class Role { kOrdinary, kHot, kDead, kOfDomain };
  struct ExpertRole {
    Role role = Role::kOrdinary;
    int64_t number = 0;  // of the domain, or among the ordinary experts of the layer
  };

  PlantedRouting(const PlantedSpec& planted, const ModelSpec& spec, uint64_t seed);
  std::string letters_of(int64_t domain) const;
  void take_out_directions(std::span<float> row) const;
  void draw_random_part(int64_t place, std::span<float> row) const;
  void prefer_letters(int64_t number, std::span<float> row) const;
  std::vector<int64_t> experts_with(int64_t layer, Role role, int64_t number) const;

  PlantedSpec planted_;
  uint64_t seed_ = 0;
  int64_t n_ordinary_ = 0;                      // of a layer
  std::vector<int64_t> layers_;                 // with experts
  std::vector<std::vector<ExpertRole>> roles_;  // [all layers][experts], empty for dense ones
  std::array<int8_t, 256> domain_of_byte_;      // -1: none
  std::array<int8_t, 256> place_of_byte_;       // in its block
};

}  // namespace soli
