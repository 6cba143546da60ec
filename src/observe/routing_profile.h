#pragma once

// The routing profile of a model over labelled texts [O3]: counts per domain and layer. No I/O, no clock.

#include <cstdint>
#include <string>
#include <vector>

#include "model/spec.h"
#include "observe/routing_counts.h"
#include "observe/routing_sample.h"

namespace soli {

/// Pairs of experts that are counted, over all domains and layers, at most: 256 MiB of counts.
inline constexpr int64_t kMaxProfilePairs = int64_t{1} << 25;

/// The layers and experts that a profile is about.
struct ProfileShape {
  std::vector<int64_t> layers;  // with experts, as counted among all layers
  int64_t n_experts = 0;
  bool counts_pairs = true;

  /// Pairs are counted where `n_domains` times all of them stay within kMaxProfilePairs.
  static ProfileShape of(const ModelSpec& spec, int64_t n_domains);
  bool operator==(const ProfileShape&) const = default;
};

/// One domain.
struct DomainCounts {
  DomainCounts(std::string name_of_it, const ProfileShape& shape);

  void merge(const DomainCounts& other);
  int64_t n_tokens() const { return layers.empty() ? 0 : layers.front().n_tokens(); }

  std::string name;
  uint64_t text_hash = 0;  // of the tokens that are profiled
  int64_t n_windows = 0;   // counted so far: the first ones of the text
  std::vector<LayerCounts> layers;
  RoutingSample sample;
};

struct RoutingProfile {
  std::string model;
  int64_t experts_per_token = 0;
  int64_t window = 0;      // positions
  int64_t max_tokens = 0;  // of a domain; 0: all
  std::string policy;      // of routing, as JSON
  ProfileShape shape;
  std::vector<DomainCounts> domains;

  int64_t n_windows() const;
};

/// The counts of one text that is read from its beginning, token by token in each layer. Layers may be ahead
/// of one another.
class RoutingWindow {
 public:
  /// `key` tells this text from all others: the sample of tokens goes by it.
  RoutingWindow(const ProfileShape& shape, uint64_t key);

  /// `layer` is a place in shape.layers. A position that this layer has seen is passed over: it was computed
  /// again.
  void add(size_t layer, const ProfiledToken& token);
  /// Adds what was counted to a domain, as one window more. All layers have seen the same tokens.
  void merge_into(DomainCounts& domain) &&;

 private:
  struct Reader {  // of one layer
    int64_t next_position = 0;
    int64_t n_tokens = 0;
    std::vector<int32_t> previous;  // experts, ascending
    int32_t previous_top1 = -1;
    std::vector<int64_t> seen_in;  // [batch sizes][experts] batch in which an expert was last called, from 1
    std::array<int64_t, kProfileBatches.size()> distinct = {};  // of the batches that are open
  };

  void compare(Reader& reader, LayerCounts& counts, const ProfiledToken& token);
  void add_to_batches(Reader& reader, LayerCounts& counts);
  void add_to_sample(size_t layer, int64_t number);

  const uint64_t key_;
  DomainCounts counts_;
  std::vector<Reader> readers_;
  std::vector<SampledRun> runs_;
  std::vector<int32_t> sorted_;  // of the present token
};

}  // namespace soli
