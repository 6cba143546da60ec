#include "serve/policy_allowance.h"

#include <fmt/ranges.h>
#include <algorithm>

#include "base/utf8.h"
#include "model/policy_text.h"

namespace soli::serve {

Result<PolicyAllowance> PolicyAllowance::parse(std::string_view text) {
  const std::vector<std::string> known = policy_keys();
  PolicyAllowance allowance;
  if (text == "none") return allowance;
  if (text == "all") {
    allowance.keys_ = {known.begin(), known.end()};
    return allowance;
  }
  while (true) {
    const size_t comma = text.find(',');
    const std::string key(text.substr(0, comma));
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      return fail(ErrorKind::kInvalidArgument,
                  "'{}' is no control of a routing policy; none, all, or some of {}", printable(key),
                  fmt::join(known, ","));
    }
    allowance.keys_.insert(key);
    if (comma == std::string_view::npos) return allowance;
    text.remove_prefix(comma + 1);
  }
}

PolicyAllowance PolicyAllowance::within(const PolicyAllowance& other) const {
  PolicyAllowance both;
  std::set_intersection(keys_.begin(), keys_.end(), other.keys_.begin(), other.keys_.end(),
                        std::inserter(both.keys_, both.keys_.end()));
  return both;
}

bool PolicyAllowance::has_state() const {
  return keys_.contains("smoothing") || keys_.contains("context_gate") || keys_.contains("capacity_factor");
}

}  // namespace soli::serve
