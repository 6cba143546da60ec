#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/policy_allowance.h"

namespace soli::serve {

/// What opens the door, and what its holder may do.
struct ApiKey {
  std::string key = {};
  std::string name = {};              // for the log and the metrics; keys themselves are never shown
  int64_t max_experts_per_token = 0;  // 0: the server's limit
  std::optional<PolicyAllowance> allow_policy = {};  // of what the server allows; else all of it
  std::string tenant = {};  // keys with the same one share a turn; "": a turn of its own
  int64_t priority = 0;     // among waiting requests of one tenant, the highest goes first
};

/// The keys of a server. Immutable; any thread may read.
class ApiKeys {
 public:
  static constexpr size_t kMaxKeys = 1024;
  static constexpr size_t kMinKeyBytes = 8;
  static constexpr size_t kMaxKeyBytes = 256;
  static constexpr size_t kMaxNameBytes = 64;

  ApiKeys() = default;
  /// A key without a name gets "key-N", counted from 1. Fails with kInvalidArgument for a key that is too
  /// short or too long, has other than visible ASCII characters, or comes twice, and for a name that comes
  /// twice. Errors name the position of a key, never the key.
  static Result<ApiKeys> create(std::vector<ApiKey> keys);

  bool empty() const { return keys_.empty(); }
  size_t size() const { return keys_.size(); }
  const ApiKey& operator[](size_t index) const { return keys_[index]; }
  /// From 1 to size().
  uint32_t tenant_of(size_t index) const { return tenants_[index]; }

  /// Which key that is. Takes the same time for every text of at most kMaxKeyBytes, whether it is a key or
  /// not and however much of it is right.
  std::optional<size_t> find(std::string_view presented) const;

 private:
  struct Padded {
    std::array<uint8_t, kMaxKeyBytes> bytes = {};
    size_t size = 0;
  };
  static Padded pad(std::string_view key);

  std::vector<ApiKey> keys_;
  std::vector<Padded> padded_;
  std::vector<uint32_t> tenants_;
};

/// Keys of a file: "KEY" or "KEY NAME" a line; blank lines and lines that begin with '#' are passed over.
/// Fails with kMalformed, naming path and line.
Result<std::vector<ApiKey>> parse_key_lines(std::string_view text, const std::string& path);

/// The token of "Bearer TOKEN", the value of a field Authorization.
std::optional<std::string_view> bearer_token(std::string_view authorization);

}  // namespace soli::serve
