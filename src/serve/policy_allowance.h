#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace soli::serve {

/// Which controls of the routing policy a request may set, beside its number of experts, which has a limit of
/// its own.
class PolicyAllowance {
 public:
  /// No control.
  PolicyAllowance() = default;
  /// "none", "all", or keys of a policy separated by commas. Fails with kInvalidArgument, naming the part.
  static Result<PolicyAllowance> parse(std::string_view text);

  bool allows(const std::string& key) const { return key == "experts_per_token" || keys_.contains(key); }
  bool none() const { return keys_.empty(); }
  /// What both allow.
  PolicyAllowance within(const PolicyAllowance& other) const;
  /// Ascending.
  std::vector<std::string> keys() const { return {keys_.begin(), keys_.end()}; }
  /// Whether one of them makes a token's routing depend on that of the tokens before.
  bool has_state() const;

 private:
  std::set<std::string> keys_;
};

}  // namespace soli::serve
