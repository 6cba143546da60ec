#pragma once

// Cuts a text into the words inside which byte-pair merges may work.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/regex.h"

namespace soli {

/// How one family of models cuts text, and what else llama.cpp ties to the name that its files carry.
struct PretokenizerEntry {
  std::vector<std::string_view> names;     // values of tokenizer.ggml.pre
  std::vector<std::string_view> patterns;  // PCRE2; applied one after the other to the words cut so far
  bool whole_words_first = false;          // a word that is a token is that token, whatever the merges say
  bool adds_bos = false;                   // unless the file says otherwise
};

/// The table of all known pre-tokenizers. Written so that every pattern runs in linear time.
const std::vector<PretokenizerEntry>& pretokenizer_table();
/// The entry of that name, or nullptr.
const PretokenizerEntry* find_pretokenizer(std::string_view name);
/// All names, sorted, with commas; for messages.
std::string pretokenizer_names();

class Pretokenizer {
 public:
  /// Fails with kUnsupported, naming an unknown pre-tokenizer and the known ones.
  static Result<Pretokenizer> create(std::string_view name);

  const PretokenizerEntry& entry() const { return *entry_; }

  /// Cuts `text`, which must be valid UTF-8 and shorter than 4 GiB. The words end to end are the text. Any
  /// thread may call it. Fails with kLimit where PCRE2 gives up, which the patterns of the table do not let
  /// happen.
  Result<std::vector<TextSpan>> split(std::string_view text) const;

 private:
  explicit Pretokenizer(const PretokenizerEntry* entry) : entry_(entry) {}

  const PretokenizerEntry* entry_;
  std::vector<Regex> patterns_;
};

}  // namespace soli
