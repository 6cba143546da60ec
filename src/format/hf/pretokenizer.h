#pragma once

// The member "pre_tokenizer" of tokenizer.json: cuts a normalized text into the words inside which the model
// may merge.

#include <functional>
#include <string>
#include <vector>

#include "format/hf/json.h"
#include "format/regex.h"

namespace soli::hf {

/// A text in parts. Bytes outside of all parts are dropped.
struct Words {
  std::string text;
  std::vector<TextSpan> parts;  // in order, none empty
  bool begins = false;          // the first part is where the whole input begins
  size_t max_bytes = 0;         // that `text` may grow to
};

/// How a cut treats what a pattern finds.
enum class CutBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Immutable; any thread may use it.
class PreTokenizer {
 public:
  PreTokenizer() = default;
  /// Fails with kMalformed, kUnsupported or kLimit, naming the place and, for an unknown type, those known.
  static Result<PreTokenizer> read(const JsonValue& value);

  /// Cuts well-formed UTF-8. Fails with kLimit for a text that grows beyond max_grown_bytes() (normalizer.h),
  /// or on which a pattern needs too much work.
  Result<Words> apply(std::string text, bool begins) const;

 private:
  using Step = std::function<Status(Words&)>;

  Status add(const JsonValue& value);
  Status add_sequence(const JsonValue& value);
  Status add_byte_level(const JsonValue& value);
  Status add_metaspace(const JsonValue& value);
  Status add_split(const JsonValue& value);
  Status add_step(const JsonValue& value, Step step);

  std::vector<Step> steps_;
};

/// The parts that a cut makes of a text of `size` bytes. `matches` do not overlap.
void cut_at_matches(const std::vector<TextSpan>& matches, uint32_t size, CutBehavior behavior, bool invert,
                    std::vector<TextSpan>& parts);

/// What "Metaspace" says, as a pre-tokenizer or as a decoder.
struct Metaspace {
  enum class Prepend { kAlways, kFirst, kNever };
  std::string replacement;  // one character
  Prepend prepend = Prepend::kAlways;
  bool split = true;

  static Result<Metaspace> read(const JsonValue& value);
};

}  // namespace soli::hf
