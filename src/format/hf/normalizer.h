#pragma once

// The member "normalizer" of tokenizer.json: what is done to a text before it is cut.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "format/hf/json.h"

namespace soli::hf {

/// Most steps that a normalizer or pre-tokenizer may have.
inline constexpr size_t kMaxSteps = 64;
/// Longest that a text of `bytes` may grow to in such steps.
constexpr size_t max_grown_bytes(size_t bytes) {
  return std::min((size_t{1} << 20) + 32 * bytes, size_t{3} << 30);
}

/// Immutable; any thread may use it.
class Normalizer {
 public:
  Normalizer() = default;
  /// Fails with kMalformed, kUnsupported or kLimit, naming the place and, for an unknown type, those known.
  static Result<Normalizer> read(const JsonValue& value);

  bool empty() const { return steps_.empty(); }
  /// The normalized form of well-formed UTF-8. Fails with kLimit for a text that grows beyond
  /// max_grown_bytes(), or on which a pattern needs too much work.
  Result<std::string> apply(std::string text) const;

 private:
  /// Takes a text and the most bytes that it may become.
  using Step = std::function<Result<std::string>(std::string, size_t)>;

  Status add(const JsonValue& value);
  Status add_sequence(const JsonValue& value);
  static Result<Step> read_strip(const JsonValue& value);
  static Result<Step> read_replace(const JsonValue& value);
  static Result<Step> read_prepend(const JsonValue& value);

  std::vector<Step> steps_;
};

}  // namespace soli::hf
