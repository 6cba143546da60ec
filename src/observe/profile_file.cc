#include "observe/profile_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <type_traits>

#include "base/utf8.h"
#include "format/hf/json.h"
#include "model/model_file.h"

namespace soli {
namespace {

using Json = nlohmann::ordered_json;
using hf::JsonValue;

constexpr std::string_view kProfileFormat = "soli-profile-1";
constexpr int64_t kMaxCount = int64_t{1} << 53;
/// Of tokens, calls, batches in one layer of one domain: those of all experts of all domains still fit in 64
/// bits.
constexpr int64_t kMaxTokens = int64_t{1} << 38;

template <typename Range>
std::string numbers_text(const Range& numbers) {
  std::string text;
  for (const auto& number : numbers)
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : " ", number);
  return text;
}

std::string moments_text(const Moments& moments) {
  return fmt::format("{} {} {}", moments.n, moments.sum, moments.squares);
}

Json counts_json(const LayerCounts& layer) {
  std::vector<int64_t> batches;
  for (const BatchSums& batch : layer.batches)
    batches.insert(batches.end(), {batch.n_batches, batch.distinct});
  std::vector<double> positions;
  for (const PositionSums& sums : layer.positions) {
    positions.insert(positions.end(), {static_cast<double>(sums.n_tokens), static_cast<double>(sums.n_calls),
                                       sums.effective_experts, sums.gate_entropy_bits});
  }
  return {{"calls", numbers_text(layer.calls)},
          {"pairs", numbers_text(layer.pairs)},
          {"chosen", moments_text(layer.chosen)},
          {"effective_experts", moments_text(layer.effective_experts)},
          {"gate_entropy_bits", moments_text(layer.gate_entropy_bits)},
          {"margin", moments_text(layer.margin)},
          {"overlap", moments_text(layer.overlap)},
          {"top1_changes", layer.top1_changes},
          {"batches", numbers_text(batches)},
          {"positions", numbers_text(positions)}};
}

Json sample_json(const RoutingSample& sample) {
  Json runs = Json::array();
  for (const SampledRun& run : sample.runs()) {
    Json layers = Json::array();
    for (const SampledRun::Layer& layer : run.layers)
      layers.push_back({{"k", numbers_text(layer.k)}, {"ids", numbers_text(layer.ids)}});
    runs.push_back({{"key", fmt::format("{:x}", run.key)}, {"layers", std::move(layers)}});
  }
  return runs;
}

/// The numbers of a text.
template <typename T>
Result<std::vector<T>> read_numbers(const JsonValue& value, T min, T max) {
  SOLI_ASSIGN_OR_RETURN(const std::string text, value.text());
  std::vector<T> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    T number{};
    const auto [rest, error] = std::from_chars(at, end, number);
    const bool is_right =
        error == std::errc() && (rest == end || *rest == ' ') && number >= min && number <= max;
    if (!is_right)
      return value.wrong(fmt::format("numbers from {} to {}, with blanks between them", min, max));
    numbers.push_back(number);
    at = rest == end ? end : rest + 1;
  }
  return numbers;
}

/// Exactly `n` of them.
template <typename T>
Result<std::vector<T>> read_numbers_at(const JsonValue& object, std::string_view key, size_t n, T min,
                                       T max) {
  SOLI_ASSIGN_OR_RETURN(const JsonValue value, object.at(key));
  SOLI_ASSIGN_OR_RETURN(std::vector<T> numbers, read_numbers(value, min, max));
  if (numbers.size() == n) return numbers;
  return fail(ErrorKind::kMalformed, "{} has {} numbers; {} are allowed", value.path(), numbers.size(), n);
}

Result<Moments> read_moments(const JsonValue& object, std::string_view key) {
  constexpr double kMost = 1e300;
  SOLI_ASSIGN_OR_RETURN(const std::vector<double> numbers,
                        read_numbers_at<double>(object, key, 3, -kMost, kMost));
  if (numbers[0] >= 0 && numbers[0] <= static_cast<double>(kMaxTokens) &&
      numbers[0] == std::floor(numbers[0]))
    return Moments{static_cast<int64_t>(numbers[0]), numbers[1], numbers[2]};
  SOLI_ASSIGN_OR_RETURN(const JsonValue value, object.at(key));
  return value.wrong("a count, a sum and a sum of squares");
}

Result<LayerCounts> read_layer(const JsonValue& object, const ProfileShape& shape) {
  // Nothing is made room for before the text has as many numbers.
  const auto n_experts = static_cast<size_t>(shape.n_experts);
  const size_t n_pairs = shape.counts_pairs ? LayerCounts::n_pairs(shape.n_experts) : 0;
  SOLI_ASSIGN_OR_RETURN(std::vector<int64_t> calls,
                        read_numbers_at<int64_t>(object, "calls", n_experts, 0, kMaxTokens));
  SOLI_ASSIGN_OR_RETURN(std::vector<int64_t> pairs,
                        read_numbers_at<int64_t>(object, "pairs", n_pairs, 0, kMaxTokens));
  LayerCounts layer(shape.n_experts, false);
  layer.calls = std::move(calls);
  layer.pairs = std::move(pairs);
  SOLI_ASSIGN_OR_RETURN(layer.chosen, read_moments(object, "chosen"));
  SOLI_ASSIGN_OR_RETURN(layer.effective_experts, read_moments(object, "effective_experts"));
  SOLI_ASSIGN_OR_RETURN(layer.gate_entropy_bits, read_moments(object, "gate_entropy_bits"));
  SOLI_ASSIGN_OR_RETURN(layer.margin, read_moments(object, "margin"));
  SOLI_ASSIGN_OR_RETURN(layer.overlap, read_moments(object, "overlap"));
  SOLI_ASSIGN_OR_RETURN(const JsonValue changes, object.at("top1_changes"));
  SOLI_ASSIGN_OR_RETURN(layer.top1_changes, changes.integer(0, kMaxTokens));
  SOLI_ASSIGN_OR_RETURN(const std::vector<int64_t> batches,
                        read_numbers_at<int64_t>(object, "batches", 2 * layer.batches.size(), 0, kMaxTokens));
  for (size_t b = 0; b < layer.batches.size(); ++b) layer.batches[b] = {batches[2 * b], batches[2 * b + 1]};
  SOLI_ASSIGN_OR_RETURN(const std::vector<double> positions,
                        read_numbers_at<double>(object, "positions", 4 * layer.positions.size(), 0, 0x1p38));
  for (size_t b = 0; b < layer.positions.size(); ++b) {
    const double* const p = positions.data() + 4 * b;
    layer.positions[b] = {static_cast<int64_t>(p[0]), static_cast<int64_t>(p[1]), p[2], p[3]};
  }
  return layer;
}

Result<SampledRun::Layer> read_sampled_layer(const JsonValue& object, const ProfileShape& shape) {
  SampledRun::Layer layer;
  SOLI_ASSIGN_OR_RETURN(const JsonValue k, object.at("k"));
  SOLI_ASSIGN_OR_RETURN(layer.k, read_numbers<int32_t>(k, 0, static_cast<int32_t>(shape.n_experts)));
  if (static_cast<int64_t>(layer.k.size()) > RoutingSample::kRunTokens)
    return k.wrong(fmt::format("at most {} tokens", RoutingSample::kRunTokens));
  size_t n_ids = 0;
  for (const int32_t n : layer.k) n_ids += static_cast<size_t>(n);
  const auto last = static_cast<int32_t>(shape.n_experts - 1);
  SOLI_ASSIGN_OR_RETURN(layer.ids, read_numbers_at<int32_t>(object, "ids", n_ids, 0, last));
  return layer;
}

Result<SampledRun> read_run(const JsonValue& object, const ProfileShape& shape) {
  SampledRun run;
  SOLI_ASSIGN_OR_RETURN(const JsonValue key, object.at("key"));
  SOLI_ASSIGN_OR_RETURN(const std::string text, key.text());
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), run.key, 16);
  if (error != std::errc() || rest != text.data() + text.size())
    return key.wrong("a number of 64 bits in hexadecimal");
  SOLI_ASSIGN_OR_RETURN(const JsonValue layers, object.at("layers"));
  SOLI_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, layers.items(shape.layers.size()));
  for (const JsonValue& item : items) {
    SOLI_ASSIGN_OR_RETURN(SampledRun::Layer layer, read_sampled_layer(item, shape));
    run.layers.push_back(std::move(layer));
    if (run.layers.back().k.size() != run.layers.front().k.size())
      return item.wrong("as many tokens as in all layers");
  }
  if (run.layers.size() != shape.layers.size()) return layers.wrong("a sample of each layer");
  return run;
}

/// Each token passes through all layers: what counts tokens is the same in each.
bool has_seen_the_same_tokens(const LayerCounts& layer, const LayerCounts& first) {
  const auto same_batches = [](const BatchSums& a, const BatchSums& b) { return a.n_batches == b.n_batches; };
  const auto same_tokens = [](const PositionSums& a, const PositionSums& b) {
    return a.n_tokens == b.n_tokens;
  };
  return layer.n_tokens() == first.n_tokens() &&
         std::equal(layer.batches.begin(), layer.batches.end(), first.batches.begin(), same_batches) &&
         std::equal(layer.positions.begin(), layer.positions.end(), first.positions.begin(), same_tokens);
}

Result<DomainCounts> read_domain(const JsonValue& object, const ProfileShape& shape) {
  SOLI_ASSIGN_OR_RETURN(std::string name, object.text_at("name"));
  DomainCounts domain(std::move(name), {});
  SOLI_ASSIGN_OR_RETURN(const std::string hash, object.text_at("text_hash"));
  std::from_chars(hash.data(), hash.data() + hash.size(), domain.text_hash, 16);
  SOLI_ASSIGN_OR_RETURN(const JsonValue windows, object.at("windows"));
  SOLI_ASSIGN_OR_RETURN(domain.n_windows, windows.integer(0, kMaxTokens));
  SOLI_ASSIGN_OR_RETURN(const JsonValue layers, object.at("layers"));
  SOLI_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, layers.items(shape.layers.size()));
  if (items.size() != shape.layers.size()) return layers.wrong("the counts of each layer");
  for (const JsonValue& item : items) {
    SOLI_ASSIGN_OR_RETURN(LayerCounts layer, read_layer(item, shape));
    domain.layers.push_back(std::move(layer));
    if (!has_seen_the_same_tokens(domain.layers.back(), domain.layers.front()))
      return item.wrong("as many tokens, by batches and by positions, as in the first layer");
  }
  SOLI_ASSIGN_OR_RETURN(const JsonValue sample, object.at("sample"));
  SOLI_ASSIGN_OR_RETURN(const std::vector<JsonValue> runs, sample.items(RoutingSample::kMaxRuns));
  for (const JsonValue& item : runs) {
    SOLI_ASSIGN_OR_RETURN(SampledRun run, read_run(item, shape));
    domain.sample.add(std::move(run));
  }
  return domain;
}

Result<ProfileShape> read_shape(const JsonValue& root) {
  ProfileShape shape;
  SOLI_ASSIGN_OR_RETURN(const JsonValue layers, root.at("layers"));
  SOLI_ASSIGN_OR_RETURN(shape.layers, read_numbers<int64_t>(layers, 0, kMaxLayers));
  for (size_t l = 0; l < shape.layers.size(); ++l) {
    if (shape.layers.size() > static_cast<size_t>(kMaxLayers) ||
        (l > 0 && shape.layers[l] <= shape.layers[l - 1]))
      return layers.wrong("ascending numbers of layers");
  }
  if (shape.layers.empty()) return layers.wrong("ascending numbers of layers");
  SOLI_ASSIGN_OR_RETURN(const JsonValue experts, root.at("n_experts"));
  SOLI_ASSIGN_OR_RETURN(shape.n_experts, experts.integer(1, kMaxExperts));
  SOLI_ASSIGN_OR_RETURN(shape.counts_pairs, root.flag_or("counts_pairs", false));
  return shape;
}

Result<RoutingProfile> read_profile(const JsonValue& root) {
  RoutingProfile profile;
  SOLI_ASSIGN_OR_RETURN(const JsonValue format, root.at("format"));
  SOLI_ASSIGN_OR_RETURN(const std::string name, format.text());
  if (name != kProfileFormat) return format.wrong(fmt::format("'{}'", kProfileFormat));
  SOLI_ASSIGN_OR_RETURN(profile.model, root.text_at("model"));
  SOLI_ASSIGN_OR_RETURN(profile.policy, root.text_at("policy"));
  SOLI_ASSIGN_OR_RETURN(profile.shape, read_shape(root));
  const std::pair<const char*, int64_t*> integers[] = {{"experts_per_token", &profile.experts_per_token},
                                                       {"window", &profile.window},
                                                       {"max_tokens", &profile.max_tokens}};
  for (const auto& [key, number] : integers) {
    SOLI_ASSIGN_OR_RETURN(const JsonValue value, root.at(key));
    SOLI_ASSIGN_OR_RETURN(*number, value.integer(0, kMaxCount));
  }
  SOLI_ASSIGN_OR_RETURN(const JsonValue domains, root.at("domains"));
  SOLI_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, domains.items(kMaxProfileDomains));
  for (const JsonValue& item : items) {
    SOLI_ASSIGN_OR_RETURN(DomainCounts domain, read_domain(item, profile.shape));
    profile.domains.push_back(std::move(domain));
  }
  return profile;
}

}  // namespace

std::string profile_to_text(const RoutingProfile& profile) {
  Json json = {{"format", kProfileFormat},
               {"model", replace_invalid_utf8(profile.model)},
               {"policy", profile.policy},
               {"layers", numbers_text(profile.shape.layers)},
               {"n_experts", profile.shape.n_experts},
               {"counts_pairs", profile.shape.counts_pairs},
               {"experts_per_token", profile.experts_per_token},
               {"window", profile.window},
               {"max_tokens", profile.max_tokens},
               {"domains", Json::array()}};
  for (const DomainCounts& domain : profile.domains) {
    Json layers = Json::array();
    for (const LayerCounts& layer : domain.layers) layers.push_back(counts_json(layer));
    json["domains"].push_back({{"name", replace_invalid_utf8(domain.name)},
                               {"text_hash", fmt::format("{:x}", domain.text_hash)},
                               {"windows", domain.n_windows},
                               {"layers", std::move(layers)},
                               {"sample", sample_json(domain.sample)}});
  }
  return json.dump(1) + "\n";
}

Result<RoutingProfile> parse_profile(std::string_view text) {
  SOLI_ASSIGN_OR_RETURN(const hf::JsonFile file, hf::parse_json(text));
  return read_profile(JsonValue(file.root, ""));
}

}  // namespace soli
