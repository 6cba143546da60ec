#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/slab.h"
#include "model/hooks.h"
#include "model/spec.h"

namespace soli {

/// Which experts tokens called when the model saw them, learned as it runs: a guess at what a prompt will
/// call before it is read, since a router goes by the token more than by anything else. Looks at a few
/// layers, and lets tokens of large vocabularies share a row of counts. Engine's thread only.
class TokenExperts final : public RouterObserver {
 public:
  /// Charges its counts as "token experts". Fails with kLimit.
  static Result<TokenExperts> create(const ModelSpec& spec, Budget& budget);
  /// What create() would charge.
  static int64_t bytes_needed(const ModelSpec& spec);

  /// Before each step: who else looks on, or null.
  void begin_step(RouterObserver* next) { next_ = next; }
  void on_route(const RouterView& view, const Choice& choice) override;

  /// [layers looked at * experts] expected shares of a layer's calls; empty where nothing is known of the
  /// tokens. Of a long prompt, tokens at equal distances count.
  using Profile = std::vector<float>;
  Profile profile_of(std::span<const int32_t> tokens) const;

 private:
  TokenExperts(const ModelSpec& spec, Slab counts);
  int64_t offset_of(int32_t token) const { return token % n_rows_ * n_looked_at_ * n_experts_; }

  int64_t n_experts_;
  int64_t n_rows_;
  std::vector<int64_t> place_;  // [layers] among those that are looked at, or -1
  int64_t n_looked_at_ = 0;
  Slab counts_;  // [n_rows][layers looked at][experts]
  RouterObserver* next_ = nullptr;
};

/// Sum of the lesser shares: what two requests are expected to call together.
double likeness(const TokenExperts::Profile& a, const TokenExperts::Profile& b);

}  // namespace soli
