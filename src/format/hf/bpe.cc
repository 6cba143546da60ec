#include "format/hf/bpe.h"

#include "base/utf8.h"

namespace soli::hf {
namespace {

constexpr uint32_t kLowCharacters = 0x400;

}  // namespace

Result<BytePairModel> BytePairModel::read(const JsonFile& file, const JsonValue& model,
                                          const Vocabulary& vocabulary) {
  BytePairModel out(vocabulary);
  out.note_tokens(file);
  SOLI_RETURN_IF_ERROR(out.read_options(model));
  SOLI_RETURN_IF_ERROR(out.add_merges(file));
  out.low_characters_.assign(kLowCharacters, -1);
  for (uint32_t c = 0; c < kLowCharacters; ++c) {
    std::string character;
    append_utf8(character, c);
    out.low_characters_[c] = out.find(character).value_or(-1);
  }
  return out;
}

void BytePairModel::note_tokens(const JsonFile& file) {
  of_model_.assign(static_cast<size_t>(vocabulary_->size()), false);
  for (const int64_t id : file.ids) of_model_[static_cast<size_t>(id)] = true;
}

Status BytePairModel::read_options(const JsonValue& model) {
  if (const auto dropout = model.find("dropout")) {
    SOLI_ASSIGN_OR_RETURN(const double share, dropout->number());
    if (share != 0) {
      return fail(ErrorKind::kUnsupported, "{} is {}; null is supported: ids may not depend on chance",
                  dropout->path(), share);
    }
  }
  SOLI_ASSIGN_OR_RETURN(prefix_, model.text_or("continuing_subword_prefix", ""));
  SOLI_ASSIGN_OR_RETURN(suffix_, model.text_or("end_of_word_suffix", ""));
  for (const std::string* text : {&prefix_, &suffix_}) {
    if (text->size() <= kMaxTokenBytes) continue;
    return fail(ErrorKind::kLimit, "a prefix or suffix of {} has {} bytes; {} are allowed", model.path(),
                text->size(), kMaxTokenBytes);
  }
  SOLI_ASSIGN_OR_RETURN(fuse_unknown_, model.flag_or("fuse_unk", false));
  SOLI_ASSIGN_OR_RETURN(whole_words_first_, model.flag_or("ignore_merges", false));
  SOLI_ASSIGN_OR_RETURN(const bool fallback, model.flag_or("byte_fallback", false));
  SOLI_ASSIGN_OR_RETURN(const std::string unknown, model.text_or("unk_token", ""));
  unknown_ = find(unknown);
  if (!fallback) return {};
  for (int byte = 0; byte < 256; ++byte) bytes_.push_back(find(fmt::format("<0x{:02X}>", byte)).value_or(-1));
  return {};
}

Status BytePairModel::add_merges(const JsonFile& file) {
  const size_t n = file.left.size();
  merges_ = MergeTable(n);
  // Of two merges of one pair the later counts, so they are entered from the end.
  for (size_t i = n; i-- > 0;) {
    const std::string_view left = file.left[i], right = file.right[i];
    if (left.empty() && right.empty()) continue;  // a comment
    const auto missing = [&](std::string_view text) {
      return fail(ErrorKind::kMalformed,
                  "model.merges[{}] needs the token '{}', which model.vocab does not have", i,
                  printable(text));
    };
    const auto left_id = find(left), right_id = find(right);
    if (!left_id) return missing(left);
    if (!right_id) return missing(right);
    if (right.size() < prefix_.size()) {
      return fail(ErrorKind::kMalformed,
                  "model.merges[{}]: '{}' is shorter than continuing_subword_prefix '{}'", i,
                  printable(right), printable(prefix_));
    }
    const std::string whole = std::string(left) + std::string(right.substr(prefix_.size()));
    const auto result = find(whole);
    if (!result) return missing(whole);
    merges_.insert(*left_id, *right_id, {static_cast<uint32_t>(i), *result});
  }
  return {};
}

std::optional<int32_t> BytePairModel::find(std::string_view text) const {
  const auto id = vocabulary_->find(text);
  return id && of_model_[static_cast<size_t>(*id)] ? id : std::nullopt;
}

std::optional<int32_t> BytePairModel::find_character(std::string_view character) const {
  const uint32_t code_point = utf8_front(character).code_point;
  if (code_point >= kLowCharacters) return find(character);
  const int32_t id = low_characters_[code_point];
  return id < 0 ? std::nullopt : std::optional(id);
}

bool BytePairModel::add_bytes(std::string_view text, WordMerger& merger) const {
  if (bytes_.empty()) return false;
  for (const char byte : text) {
    if (bytes_[static_cast<uint8_t>(byte)] < 0) return false;
  }
  for (const char byte : text) merger.add(bytes_[static_cast<uint8_t>(byte)]);
  return true;
}

Status BytePairModel::encode(std::string_view word, WordMerger& merger, std::vector<int32_t>& ids) const {
  if (whole_words_first_ && word.size() <= vocabulary_->max_token_bytes()) {
    if (const auto whole = find(word)) {
      ids.push_back(*whole);
      return {};
    }
  }
  merger.clear();
  bool unknown = false;  // one is due before the next known character
  for (size_t at = 0; at < word.size();) {
    const std::string_view bare = word.substr(at, utf8_front(word.substr(at)).bytes);
    const bool prefixed = at > 0 && !prefix_.empty();
    at += bare.size();
    const bool suffixed = at == word.size() && !suffix_.empty();
    std::string affixed;
    if (prefixed || suffixed) {
      affixed.append(prefixed ? prefix_ : "").append(bare).append(suffixed ? suffix_ : "");
    }
    const std::string_view character = affixed.empty() ? bare : affixed;
    if (const auto id = affixed.empty() ? find_character(bare) : find(affixed)) {
      if (unknown) merger.add(*unknown_);
      unknown = false;
      merger.add(*id);
      continue;
    }
    if (add_bytes(character, merger)) continue;
    if (!unknown_) {
      return fail(ErrorKind::kUnsupported,
                  "the vocabulary has no token for '{}' of the text, and none for the unknown",
                  printable(bare));
    }
    if (unknown && !fuse_unknown_) merger.add(*unknown_);
    unknown = true;
  }
  if (unknown) merger.add(*unknown_);
  merger.merge();
  merger.for_each([&](int32_t id) { ids.push_back(id); });
  return {};
}

}  // namespace soli::hf
