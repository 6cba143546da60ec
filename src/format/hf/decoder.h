#pragma once

// The member "decoder" of tokenizer.json: how tokens become text again.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "format/hf/json.h"

namespace soli::hf {

/// A decoder as what each token shows by itself, so that a text can be streamed. Immutable; any thread may
/// use it.
class Decoder {
 public:
  /// Without a decoder the tokens stand with blanks between them.
  Decoder();
  /// Fails with kMalformed, kUnsupported or kLimit, naming the place: also for what needs a whole text to
  /// decode, other than taking a blank off its beginning.
  static Result<Decoder> read(const JsonValue& value);

  /// The bytes that a token of the model shows; they need not be UTF-8. Fails with kLimit like the steps of a
  /// normalizer.
  Result<std::string> piece(std::string_view token) const;
  /// Whether a blank is taken off the beginning of a text.
  bool strips_blank() const { return strips_blank_; }

 private:
  using Step = std::function<Result<std::string>(std::string)>;

  struct None {};
  explicit Decoder(None) {}
  Status add(const JsonValue& value);
  Status add_sequence(const JsonValue& value);
  Status add_strip(const JsonValue& value);
  Status add_replace(const JsonValue& value);
  Status add_metaspace(const JsonValue& value);
  Status add_step(const JsonValue& value, Step step);

  std::vector<Step> steps_;
  bool fused_ = false;  // what comes now would see one text instead of tokens
  bool strips_blank_ = false;
};

}  // namespace soli::hf
