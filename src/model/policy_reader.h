#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/routing_policy.h"

namespace soli {

/// Reads the keys of a policy from a JSON value that came from anywhere. See model/policy_text.h.
class PolicyReader {
 public:
  using Json = nlohmann::ordered_json;

  Status read(const Json& json, RoutingPolicy& policy);
  /// After a failure: what it is about, such as "layers[1].mask"; or "", the whole.
  const std::string& where() const { return where_; }

 private:
  tl::unexpected<Error> refuse(const std::string& where, const std::string& what);
  tl::unexpected<Error> refuse_value(const std::string& where, const Json& value, const std::string& allowed);
  Status read_shared(const std::string& key, const Json& value, RoutingPolicy& policy);
  Status read_layers(const Json& value, RoutingPolicy& policy);
  Status read_layer(const Json& value, const std::string& where, LayerPolicy& layer);
  Status read_layer_range(const Json& value, const std::string& where, LayerPolicy& layer);
  Status read_ids(const Json& value, const std::string& where, std::vector<int32_t>& ids);
  Status read_biases(const Json& value, const std::string& where, std::vector<ExpertBias>& biases);
  /// mask, force or bias of a policy, or of a part of it. False: the key is none of these.
  template <typename Policy>
  Result<bool> read_lists(const std::string& key, const Json& value, const std::string& where,
                          Policy& policy);
  Status count_ids(size_t n, const std::string& where);

  std::string where_;
  size_t n_ids_ = 0;
};

}  // namespace soli
