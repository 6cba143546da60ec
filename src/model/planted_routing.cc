#include "model/planted_routing.h"

#include <bit>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/rng.h"
#include "base/utf8.h"
#include "model/synth_weights.h"

namespace soli {
namespace {

constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr int64_t kOrder = 16;   // of the Hadamard matrix
constexpr int kCommon = 1;       // its row that is the direction c; the next ones are the domains'
constexpr double kHotLogit = 5;  // what is wanted; random parts give some +-0.6
constexpr double kDeadLogit = -12;
constexpr double kLetterLogit = 3;  // of the ordinary expert that a letter prefers
constexpr double kDomainLogit = 4;  // in its own domain, and the negative elsewhere
// An embedding of c, u_j and a random part has the square 3 per element: so much of each direction is left
// when it is normalised.
constexpr double kDirectionShare = 0.57735026918962576;

/// Element i of row r (Sylvester): +1 or -1.
float sign_of(int row, size_t i) {
  const auto bits = static_cast<uint32_t>(row) & static_cast<uint32_t>(i % static_cast<size_t>(kOrder));
  return std::popcount(bits) % 2 == 0 ? 1.0F : -1.0F;
}

void add_direction(int direction, double amount, std::span<float> row) {
  for (size_t i = 0; i < row.size(); ++i) row[i] += static_cast<float>(amount) * sign_of(direction, i);
}

int direction_of_domain(int64_t domain) { return kCommon + 1 + static_cast<int>(domain); }

/// A direction's amount in a router's row that gives a logit, of an input that has kDirectionShare of it.
double amount_for(double logit, size_t cols) { return logit / (kDirectionShare * static_cast<double>(cols)); }

Status set_planted(std::string_view part, PlantedSpec& planted) {
  const std::pair<std::string_view, int64_t*> numbers[] = {{"domains", &planted.n_domains},
                                                           {"per-domain", &planted.n_per_domain},
                                                           {"hot", &planted.n_hot},
                                                           {"dead", &planted.n_dead}};
  if (part == "random") {
    planted.is_random = true;
    return {};
  }
  const size_t equals = std::min(part.find('='), part.size());
  for (const auto& [name, number] : numbers) {
    if (part.substr(0, equals) != name || equals == part.size()) continue;
    const char* const end = part.data() + part.size();
    const auto [rest, error] = std::from_chars(part.data() + equals + 1, end, *number);
    const int64_t most = name == "domains" ? kMaxPlantedDomains : 1000;
    const int64_t least = name == "domains" ? 1 : 0;
    if (error == std::errc() && rest == end && *number >= least && *number <= most) return {};
    return fail(ErrorKind::kInvalidArgument,
                "planted routing: '{}' is not allowed; {} is a whole number from {} to {}", printable(part),
                name, least, most);
  }
  return fail(ErrorKind::kInvalidArgument,
              "planted routing: '{}' is not allowed; random, domains=N, per-domain=N, hot=N and dead=N are",
              printable(part));
}

Status check_planted(const PlantedSpec& planted, const RouterSpec& router) {
  const int64_t n_planted = planted.n_hot + planted.n_dead + planted.n_domains * planted.n_per_domain;
  const int64_t k = router.experts_per_token;
  if (planted.is_random) return {};
  if (planted.n_hot + planted.n_per_domain >= k) {
    return fail(ErrorKind::kInvalidArgument,
                "planted routing: {} hot experts and {} of a domain are not allowed with {} per token; "
                "fewer, so that "
                "ordinary ones are chosen too",
                planted.n_hot, planted.n_per_domain, k);
  }
  if (router.n_experts - n_planted >= k - planted.n_hot) return {};
  return fail(ErrorKind::kInvalidArgument,
              "planted routing: {} planted experts are not allowed with {} experts, {} per token; at most {}",
              n_planted, router.n_experts, k, router.n_experts - (k - planted.n_hot));
}

Status check_model(const ModelSpec& spec) {
  const char* const what = "planted routing";
  if (!spec.is_moe()) return fail(ErrorKind::kInvalidArgument, "{}: the model has no experts", what);
  if (spec.router.gating == Gating::kSigmoid || spec.router.n_groups_used < spec.router.n_groups) {
    return fail(ErrorKind::kInvalidArgument,
                "{}: models that choose by sigmoids or in groups are not allowed; by a softmax over all",
                what);
  }
  if (spec.hidden_size % kOrder == 0) return {};
  return fail(ErrorKind::kInvalidArgument, "{}: the hidden size {} is not allowed; a multiple of {}", what,
              spec.hidden_size, kOrder);
}

}  // namespace

Result<PlantedSpec> parse_planted(std::string_view text) {
  PlantedSpec planted;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    SOLI_RETURN_IF_ERROR(set_planted(text.substr(0, comma), planted));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return planted;
}

Result<PlantedRouting> PlantedRouting::create(const PlantedSpec& planted, const ModelSpec& spec,
                                              uint64_t seed) {
  SOLI_RETURN_IF_ERROR(check_model(spec));
  SOLI_RETURN_IF_ERROR(check_planted(planted, spec.router));
  return PlantedRouting(planted, spec, seed);
}

PlantedRouting::PlantedRouting(const PlantedSpec& planted, const ModelSpec& spec, uint64_t seed)
    : planted_(planted), seed_(hash_u64(~seed)), roles_(static_cast<size_t>(spec.n_layers)) {
  domain_of_byte_.fill(-1);
  place_of_byte_.fill(-1);
  for (int64_t d = 0; d < planted.n_domains; ++d) {
    const std::string letters = letters_of(d);
    for (size_t i = 0; i < letters.size(); ++i) {
      domain_of_byte_[static_cast<unsigned char>(letters[i])] = static_cast<int8_t>(d);
      place_of_byte_[static_cast<unsigned char>(letters[i])] = static_cast<int8_t>(i);
    }
  }
  std::vector<ExpertRole> roles(static_cast<size_t>(spec.router.n_experts));
  if (!planted.is_random) {
    auto next = roles.begin();
    for (int64_t i = 0; i < planted.n_hot; ++i) *next++ = {Role::kHot, 0};
    for (int64_t i = 0; i < planted.n_dead; ++i) *next++ = {Role::kDead, 0};
    for (int64_t i = 0; i < planted.n_domains * planted.n_per_domain; ++i)
      *next++ = {Role::kOfDomain, i / planted.n_per_domain};
  }
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (!spec.is_moe_layer(layer)) continue;
    layers_.push_back(layer);
    Rng rng(hash_u64(seed_ + static_cast<uint64_t>(layer)));
    for (size_t i = roles.size(); i > 1; --i) std::swap(roles[i - 1], roles[rng.next_below(i)]);
    std::vector<ExpertRole>& of_layer = roles_[static_cast<size_t>(layer)];
    of_layer = roles;
    n_ordinary_ = 0;
    for (ExpertRole& role : of_layer) {
      if (role.role == Role::kOrdinary) role.number = n_ordinary_++;
    }
  }
}

std::string PlantedRouting::letters_of(int64_t domain) const {
  const size_t n = kAlphabet.size() / static_cast<size_t>(planted_.n_domains);
  return std::string(kAlphabet.substr(static_cast<size_t>(domain) * n, n));
}

void PlantedRouting::take_out_directions(std::span<float> row) const {
  for (int direction = kCommon; direction < direction_of_domain(planted_.n_domains); ++direction) {
    double product = 0;
    for (size_t i = 0; i < row.size(); ++i) product += static_cast<double>(row[i] * sign_of(direction, i));
    add_direction(direction, -product / static_cast<double>(row.size()), row);
  }
}

/// Of the letters at a place of every block.
void PlantedRouting::draw_random_part(int64_t place, std::span<float> row) const {
  draw_row({.mean = 0, .deviation = 1}, hash_u64(seed_ ^ hash_u64(static_cast<uint64_t>(place))),
           static_cast<int64_t>(row.size()), row.data());
  take_out_directions(row);
}

void PlantedRouting::prefer_letters(int64_t number, std::span<float> row) const {
  std::vector<float> letter(row.size());
  const auto n_letters = static_cast<int64_t>(letters_of(0).size());
  for (int64_t place = number; place < n_letters; place += n_ordinary_) {
    draw_random_part(place, letter);
    const auto amount = static_cast<float>(amount_for(kLetterLogit, row.size()));
    for (size_t i = 0; i < row.size(); ++i) row[i] += amount * letter[i];
  }
}

void PlantedRouting::edit_embedding(int64_t token, std::span<float> row) const {
  const int8_t domain = token < 256 ? domain_of_byte_[static_cast<size_t>(token)] : int8_t{-1};
  if (domain >= 0) {
    draw_random_part(place_of_byte_[static_cast<size_t>(token)], row);
  } else {
    take_out_directions(row);
  }
  add_direction(kCommon, 1, row);
  if (domain >= 0 && !planted_.is_random) add_direction(direction_of_domain(domain), 1, row);
}

void PlantedRouting::edit_router(int64_t layer, int64_t expert, std::span<float> row) const {
  take_out_directions(row);
  const ExpertRole& role = roles_[static_cast<size_t>(layer)][static_cast<size_t>(expert)];
  switch (role.role) {
    case Role::kOrdinary:
      if (!planted_.is_random) prefer_letters(role.number, row);
      return;
    case Role::kHot:
      return add_direction(kCommon, amount_for(kHotLogit, row.size()), row);
    case Role::kDead:
      return add_direction(kCommon, amount_for(kDeadLogit, row.size()), row);
    case Role::kOfDomain:
      add_direction(kCommon, amount_for(-kDomainLogit, row.size()), row);
      add_direction(direction_of_domain(role.number), amount_for(2 * kDomainLogit, row.size()), row);
  }
}

std::vector<int64_t> PlantedRouting::experts_with(int64_t layer, Role role, int64_t number) const {
  std::vector<int64_t> experts;
  const std::vector<ExpertRole>& roles = roles_[static_cast<size_t>(layer)];
  for (size_t e = 0; e < roles.size(); ++e) {
    if (roles[e].role == role && roles[e].number == number) experts.push_back(static_cast<int64_t>(e));
  }
  return experts;
}

nlohmann::ordered_json PlantedRouting::truth() const {
  using Json = nlohmann::ordered_json;
  Json json = {{"random", planted_.is_random}, {"domains", Json::array()}, {"layers", Json::array()}};
  for (int64_t d = 0; d < planted_.n_domains; ++d)
    json["domains"].push_back({{"name", fmt::format("domain{}", d)}, {"letters", letters_of(d)}});
  for (const int64_t layer : layers_) {
    Json of_domains = Json::array();
    for (int64_t d = 0; d < planted_.n_domains; ++d)
      of_domains.push_back(experts_with(layer, Role::kOfDomain, d));
    json["layers"].push_back({{"layer", layer},
                              {"hot", experts_with(layer, Role::kHot, 0)},
                              {"dead", experts_with(layer, Role::kDead, 0)},
                              {"domains", std::move(of_domains)}});
  }
  return json;
}

}  // namespace soli
