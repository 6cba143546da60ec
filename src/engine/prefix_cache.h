#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/kv_pages.h"
#include "model/routing_policy.h"

namespace soli {

/// Keys and values of tokens depend on these beside the tokens: what two sequences must have in common to
/// share pages.
struct PrefixKey {
  int32_t adapter = -1;
  RoutingPolicy policy = {};

  bool operator==(const PrefixKey&) const = default;
};

/// Whole KV pages of past and present sequences, for others that begin with the same tokens: a tree for each
/// key, in which a node is one page of tokens after those of its parent. The cache holds each of its pages
/// once; a page that nobody else holds can be evicted, the one that was used longest ago first, leaves before
/// what they continue. Used by the engine's thread only.
class PrefixCache {
 public:
  /// Offers its pages to the pool when that has no room. Keeps at most `max_pages` of those that nobody else
  /// holds; 0: as many as there is room for.
  explicit PrefixCache(KvPagePool& pool, int64_t max_pages = 0);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  /// A part of a page counts from so many tokens on: copying it costs about as much as some rows of a step.
  static constexpr int64_t kLeastPart = 8;

  /// The pages of leading tokens that the cache has.
  struct Match {
    std::vector<KvPageId> pages;
    int64_t n_positions = 0;  // of the last page perhaps only a part
  };
  /// The longest match of at most `most` leading tokens. Its pages count as used now. They stay valid until
  /// something is allocated: retain them before.
  Match find(const PrefixKey& key, std::span<const int32_t> tokens, int64_t most);

  /// Keeps the first pages of `table`, which hold `tokens`: whole pages of them. Where the cache has a page
  /// of equal contents, the table is given that in place of its own.
  void insert(const PrefixKey& key, std::span<const int32_t> tokens, KvPageTable& table);

  /// Gives up pages beyond `max_pages`, as far as nobody else holds them.
  void trim();
  /// Gives up the least recently used page that nobody else holds; false: there is none.
  bool evict_one();
  /// Gives up all pages; those that sequences hold are theirs alone then.
  void clear();

  int64_t n_pages() const { return n_pages_; }
  int64_t n_evictions() const { return n_evictions_; }
  /// Pages that evict_one() would give up one after the other. Walks the tree.
  int64_t n_evictable() const;

 private:
  struct Node;
  using Page = std::vector<int32_t>;  // [kKvPagePositions] tokens
  /// In lexicographic order, so that those with the longest common beginning stand beside a search.
  using Children = std::map<Page, std::unique_ptr<Node>>;
  struct Node {
    Node* parent = nullptr;  // null: the root of a key
    const PrefixKey* key = nullptr;
    const Page* tokens = nullptr;  // in the parent's children
    KvPageId page = -1;
    uint64_t last_used = 0;
    Children children = {};
  };
  struct KeyHash {
    size_t operator()(const PrefixKey& key) const {
      return static_cast<size_t>(key.policy.hash() ^ static_cast<uint64_t>(key.adapter));
    }
  };
  using Roots = std::unordered_map<PrefixKey, Node, KeyHash>;

  void touch(Node& node);
  void remove_leaf(Node& leaf);
  /// The child that shares most tokens with `page`, and how many.
  static std::pair<Node*, int64_t> most_alike(Node& node, const Page& page);

  KvPagePool& pool_;
  const int64_t max_pages_;
  Roots roots_;
  std::set<std::pair<uint64_t, Node*>> leaves_;  // by last use
  uint64_t now_ = 0;                             // counts uses
  int64_t n_pages_ = 0;
  int64_t n_evictions_ = 0;
};

}  // namespace soli
