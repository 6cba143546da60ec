#include "engine/prefix_cache.h"

#include <algorithm>

#include "base/check.h"

namespace soli {

PrefixCache::PrefixCache(KvPagePool& pool, int64_t max_pages) : pool_(pool), max_pages_(max_pages) {
  pool_.set_reclaim([this] { return evict_one(); });
}

PrefixCache::~PrefixCache() {
  clear();
  pool_.set_reclaim({});
}

PrefixCache::Match PrefixCache::find(const PrefixKey& key, std::span<const int32_t> tokens, int64_t most) {
  Match match;
  const auto root = roots_.find(key);
  if (root == roots_.end()) return match;
  ++now_;
  Node* node = &root->second;
  const auto n_tokens = std::min(most, static_cast<int64_t>(tokens.size()));
  while (match.n_positions < n_tokens) {
    const auto begin = tokens.begin() + match.n_positions;
    const Page page(begin, begin + std::min(kKvPagePositions, n_tokens - match.n_positions));
    const auto [child, n_alike] = most_alike(*node, page);
    if (child == nullptr || (n_alike < kKvPagePositions && n_alike < kLeastPart)) break;
    touch(*child);
    match.pages.push_back(child->page);
    match.n_positions += n_alike;
    if (n_alike < kKvPagePositions) break;
    node = child;
  }
  return match;
}

std::pair<PrefixCache::Node*, int64_t> PrefixCache::most_alike(Node& node, const Page& page) {
  std::pair<Node*, int64_t> best = {nullptr, 0};
  const auto consider = [&](Children::iterator child) {
    const Page& tokens = child->first;
    const auto end = std::mismatch(page.begin(), page.end(), tokens.begin(), tokens.end()).first;
    if (end - page.begin() > best.second) best = {child->second.get(), end - page.begin()};
  };
  const auto next = node.children.lower_bound(page);
  if (next != node.children.end()) consider(next);
  if (next != node.children.begin()) consider(std::prev(next));
  return best;
}

void PrefixCache::insert(const PrefixKey& key, std::span<const int32_t> tokens, KvPageTable& table) {
  SOLI_CHECK(tokens.size() % kKvPagePositions == 0 && tokens.size() / kKvPagePositions <= table.ids().size());
  if (tokens.empty()) return;
  const auto root = roots_.try_emplace(key).first;
  Node* node = &root->second;
  node->key = &root->first;
  ++now_;
  for (size_t i = 0; i < tokens.size() / kKvPagePositions; ++i) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(i) * kKvPagePositions;
    const auto [place, is_new] = node->children.try_emplace(Page(begin, begin + kKvPagePositions));
    if (is_new) {
      leaves_.erase({node->last_used, node});
      place->second = std::make_unique<Node>(
          Node{.parent = node, .key = node->key, .tokens = &place->first, .page = table.ids()[i]});
      pool_.retain(place->second->page);
      ++n_pages_;
    } else {
      table.replace(i, place->second->page);
    }
    node = place->second.get();
    touch(*node);
  }
}

void PrefixCache::touch(Node& node) {
  leaves_.erase({node.last_used, &node});
  node.last_used = now_;
  if (node.children.empty()) leaves_.insert({now_, &node});
}

bool PrefixCache::evict_one() {
  const auto leaf = std::find_if(leaves_.begin(), leaves_.end(),
                                 [&](const auto& entry) { return pool_.n_holders(entry.second->page) == 1; });
  if (leaf == leaves_.end()) return false;
  ++n_evictions_;
  remove_leaf(*leaf->second);
  return true;
}

void PrefixCache::trim() {
  while (max_pages_ > 0 && n_pages_ > max_pages_ && evict_one()) {
  }
}

void PrefixCache::clear() {
  while (!leaves_.empty()) remove_leaf(*leaves_.begin()->second);
}

void PrefixCache::remove_leaf(Node& leaf) {
  Node& parent = *leaf.parent;
  leaves_.erase({leaf.last_used, &leaf});
  pool_.release(leaf.page);
  --n_pages_;
  parent.children.erase(parent.children.find(*leaf.tokens));
  if (!parent.children.empty()) return;
  if (parent.parent != nullptr) {
    leaves_.insert({parent.last_used, &parent});
  } else {
    const PrefixKey key = *parent.key;
    roots_.erase(key);
  }
}

int64_t PrefixCache::n_evictable() const {
  // Who holds a page holds those before it, so a page without other holders has none below it either.
  int64_t n = 0;
  std::vector<const Node*> open;
  for (const auto& [key, root] : roots_) open.push_back(&root);
  while (!open.empty()) {
    const Node* const node = open.back();
    open.pop_back();
    for (const auto& [tokens, child] : node->children) {
      n += pool_.n_holders(child->page) == 1 ? 1 : 0;
      open.push_back(child.get());
    }
  }
  return n;
}

}  // namespace soli
