#include "serve/api_keys.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace soli::serve {
namespace {

bool is_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

Status check_key(const ApiKey& key, size_t number) {
  if (key.key.size() < ApiKeys::kMinKeyBytes || key.key.size() > ApiKeys::kMaxKeyBytes) {
    return fail(ErrorKind::kInvalidArgument, "API key {} has {} bytes; {} to {} are allowed", number,
                key.key.size(), ApiKeys::kMinKeyBytes, ApiKeys::kMaxKeyBytes);
  }
  if (!is_visible(key.key)) {
    return fail(ErrorKind::kInvalidArgument,
                "API key {} has other than visible ASCII characters, which no client could send", number);
  }
  if (key.name.size() > ApiKeys::kMaxNameBytes || !is_visible(key.name)) {
    return fail(ErrorKind::kInvalidArgument,
                "the name of API key {} is not allowed; at most {} visible ASCII characters", number,
                ApiKeys::kMaxNameBytes);
  }
  if (key.tenant.size() > ApiKeys::kMaxNameBytes) {
    return fail(ErrorKind::kInvalidArgument, "the tenant of API key {} has {} bytes; {} are allowed", number,
                key.tenant.size(), ApiKeys::kMaxNameBytes);
  }
  return {};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

}  // namespace

Result<ApiKeys> ApiKeys::create(std::vector<ApiKey> keys) {
  if (keys.size() > kMaxKeys)
    return fail(ErrorKind::kLimit, "{} API keys; {} are allowed", keys.size(), kMaxKeys);
  ApiKeys made;
  std::set<std::string> seen;
  std::set<std::string> names;
  std::map<std::string, uint32_t> tenants;
  for (size_t i = 0; i < keys.size(); ++i) {
    ApiKey& key = keys[i];
    if (key.name.empty()) key.name = fmt::format("key-{}", i + 1);
    SOLI_RETURN_IF_ERROR(check_key(key, i + 1));
    if (!seen.insert(key.key).second)
      return fail(ErrorKind::kInvalidArgument, "API key {} ('{}') was given before", i + 1, key.name);
    if (!names.insert(key.name).second)
      return fail(ErrorKind::kInvalidArgument, "two API keys have the name '{}'", key.name);
    made.padded_.push_back(pad(key.key));
    const auto number = static_cast<uint32_t>(i + 1);
    made.tenants_.push_back(key.tenant.empty() ? number : tenants.emplace(key.tenant, number).first->second);
  }
  made.keys_ = std::move(keys);
  return made;
}

ApiKeys::Padded ApiKeys::pad(std::string_view key) {
  Padded padded;
  padded.size = key.size();
  std::copy(key.begin(), key.begin() + static_cast<ptrdiff_t>(std::min(key.size(), kMaxKeyBytes)),
            padded.bytes.begin());
  return padded;
}

std::optional<size_t> ApiKeys::find(std::string_view presented) const {
  if (presented.size() > kMaxKeyBytes) return {};
  const Padded wanted = pad(presented);
  size_t found = padded_.size();
  for (size_t i = 0; i < padded_.size(); ++i) {
    size_t difference = wanted.size ^ padded_[i].size;
    for (size_t b = 0; b < kMaxKeyBytes; ++b)
      difference |= static_cast<size_t>(wanted.bytes[b] ^ padded_[i].bytes[b]);
    // All ones where they are equal, without a branch.
    const size_t is_equal = ((difference | (~difference + 1)) >> (8 * sizeof(size_t) - 1)) - 1;
    found = (i & is_equal) | (found & ~is_equal);
  }
  if (found == padded_.size()) return {};
  return found;
}

Result<std::vector<ApiKey>> parse_key_lines(std::string_view text, const std::string& path) {
  std::vector<ApiKey> keys;
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.empty() || content.starts_with('#')) continue;
    const size_t blank = std::min(content.find_first_of(" \t"), content.size());
    const std::string_view name = trimmed(content.substr(blank));
    ApiKey key{.key = std::string(content.substr(0, blank)), .name = std::string(name)};
    if (name.find_first_of(" \t") != std::string_view::npos)
      return fail(ErrorKind::kMalformed, "{}:{}: a line is a key, or a key and a name", path, line);
    if (const Status status = check_key(key, keys.size() + 1); !status)
      return fail(ErrorKind::kMalformed, "{}:{}: {}", path, line, status.error().message);
    if (keys.size() == ApiKeys::kMaxKeys)
      return fail(ErrorKind::kLimit, "{}: more than {} keys", path, ApiKeys::kMaxKeys);
    keys.push_back(std::move(key));
  }
  if (keys.empty()) return fail(ErrorKind::kMalformed, "{}: there is no key in it", path);
  return keys;
}

std::optional<std::string_view> bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if ((authorization[i] | 0x20) != (kScheme[i] | 0x20)) return {};
  }
  return trimmed(authorization.substr(kScheme.size()));
}

}  // namespace soli::serve
