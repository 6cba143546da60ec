#include "observe/routing_profile.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace soli {

ProfileShape ProfileShape::of(const ModelSpec& spec, int64_t n_domains) {
  ProfileShape shape;
  shape.n_experts = spec.router.n_experts;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (spec.is_moe_layer(layer)) shape.layers.push_back(layer);
  }
  const auto n_cells = static_cast<int64_t>(shape.layers.size()) * n_domains;
  const auto n_pairs = static_cast<int64_t>(LayerCounts::n_pairs(shape.n_experts));
  shape.counts_pairs = n_pairs == 0 || n_cells <= kMaxProfilePairs / n_pairs;
  return shape;
}

DomainCounts::DomainCounts(std::string name_of_it, const ProfileShape& shape) : name(std::move(name_of_it)) {
  layers.assign(shape.layers.size(), LayerCounts(shape.n_experts, shape.counts_pairs));
}

void DomainCounts::merge(const DomainCounts& other) {
  SOLI_CHECK(layers.size() == other.layers.size());
  n_windows += other.n_windows;
  for (size_t l = 0; l < layers.size(); ++l) layers[l].merge(other.layers[l]);
  sample.merge(other.sample);
}

int64_t RoutingProfile::n_windows() const {
  int64_t n = 0;
  for (const DomainCounts& domain : domains) n += domain.n_windows;
  return n;
}

RoutingWindow::RoutingWindow(const ProfileShape& shape, uint64_t key)
    : key_(key), counts_("", shape), readers_(shape.layers.size()) {
  const size_t n_marks = kProfileBatches.size() * static_cast<size_t>(shape.n_experts);
  for (Reader& reader : readers_) reader.seen_in.resize(n_marks);
}

void RoutingWindow::add(size_t layer, const ProfiledToken& token) {
  Reader& reader = readers_[layer];
  LayerCounts& counts = counts_.layers[layer];
  if (reader.n_tokens > 0 && token.position < reader.next_position) return;
  sorted_.clear();
  for (const ExpertCall& call : token.calls) {
    SOLI_CHECK(call.expert >= 0 && call.expert < counts.n_experts(), "expert {}", call.expert);
    sorted_.push_back(call.expert);
  }
  std::sort(sorted_.begin(), sorted_.end());
  counts.add(token, sorted_);
  compare(reader, counts, token);
  add_to_batches(reader, counts);
  add_to_sample(layer, reader.n_tokens);
  ++reader.n_tokens;
  reader.next_position = token.position + 1;
  std::swap(reader.previous, sorted_);
}

void RoutingWindow::compare(Reader& reader, LayerCounts& counts, const ProfiledToken& token) {
  const ExpertCall* top = nullptr;
  for (const ExpertCall& call : token.calls) {
    if (top == nullptr || call.weight > top->weight) top = &call;
  }
  const int32_t top1 = top == nullptr ? -1 : top->expert;
  if (reader.n_tokens > 0 && token.position == reader.next_position) {
    counts.overlap.add(jaccard(reader.previous, sorted_));
    counts.top1_changes += top1 != reader.previous_top1 ? 1 : 0;
  }
  reader.previous_top1 = top1;
}

void RoutingWindow::add_to_batches(Reader& reader, LayerCounts& counts) {
  for (size_t b = 0; b < kProfileBatches.size(); ++b) {
    const int64_t batch = reader.n_tokens / kProfileBatches[b] + 1;
    int64_t* const seen_in = reader.seen_in.data() + b * static_cast<size_t>(counts.n_experts());
    for (const int32_t expert : sorted_) {
      reader.distinct[b] += seen_in[expert] != batch ? 1 : 0;
      seen_in[expert] = batch;
    }
    if ((reader.n_tokens + 1) % kProfileBatches[b] != 0) continue;
    counts.batches[b].merge({1, reader.distinct[b]});
    reader.distinct[b] = 0;
  }
}

void RoutingWindow::add_to_sample(size_t layer, int64_t number) {
  const auto run = static_cast<size_t>(number / RoutingSample::kRunTokens);
  while (runs_.size() <= run) {
    runs_.push_back({.key = hash_u64(key_ ^ hash_u64(runs_.size())), .layers = {}});
    runs_.back().layers.resize(readers_.size());
  }
  SampledRun::Layer& to = runs_[run].layers[layer];
  to.k.push_back(static_cast<int32_t>(sorted_.size()));
  to.ids.insert(to.ids.end(), sorted_.begin(), sorted_.end());
}

void RoutingWindow::merge_into(DomainCounts& domain) && {
  for (const Reader& reader : readers_)
    SOLI_CHECK(reader.n_tokens == readers_.front().n_tokens, "layers have seen different tokens");
  for (SampledRun& run : runs_) counts_.sample.add(std::move(run));
  counts_.n_windows = 1;
  domain.merge(counts_);
}

}  // namespace soli
