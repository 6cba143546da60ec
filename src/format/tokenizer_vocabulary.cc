#include "format/tokenizer_vocabulary.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/utf8.h"

namespace soli {
namespace {

// Tokens that llama.cpp knows by their text, whatever type the file gives them. Older files carry no ids for
// them, and some give them a wrong type.
constexpr std::string_view kEndOfTurnTexts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",         "<|endoftext|>",     "<|end_of_text|>",
    "<EOT>",      "_<EOT>",     "[EOT]",   "<｜end▁of▁sentence｜>", "<end_of_utterance>"};
constexpr std::string_view kEndOfGenerationTexts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "</s>",
    "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>",
    "<end_of_utterance>", "<eos>", "<｜end▁of▁sentence｜>", "[e~[",
    // Fill-in-the-middle models end a file with these.
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
    "<REPO>", "<reponame>", "<|file_sep|>"};
constexpr std::string_view kFillInTheMiddleTexts[] = {
    "<|fim_prefix|>", "<fim-prefix>",    "<fim_prefix>",    "<｜fim▁begin｜>", "<PRE>",
    "▁<PRE>",         "<|code_prefix|>", "<|prefix|>",      "<|fim_suffix|>",  "<fim-suffix>",
    "<fim_suffix>",   "<｜fim▁hole｜>",  "<SUF>",           "▁<SUF>",          "<|code_suffix|>",
    "<|suffix|>",     "<|fim_middle|>",  "<fim-middle>",    "<fim_middle>",    "<｜fim▁end｜>",
    "<MID>",          "▁<MID>",          "<|code_middle|>", "<|middle|>"};
// The parts of a gpt-oss answer are told apart by these, so they are part of its text.
constexpr std::string_view kShownTexts[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

// Of all tokens together; their ends are numbers of 32 bits.
constexpr size_t kMaxPiecesBytes = size_t{1} << 30;

std::array<std::string, 256> make_printable_bytes() {
  std::array<std::string, 256> out;
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    append_utf8(out[byte], itself ? byte : next++);
  }
  return out;
}

/// The byte that a code point below 324 stands for, or -1. No higher one stands for a byte.
const std::array<int16_t, 324>& byte_of_code_point() {
  static const std::array<int16_t, 324> table = [] {
    std::array<int16_t, 324> out;
    out.fill(-1);
    for (int16_t byte = 0; byte < 256; ++byte) {
      out[utf8_front(printable_bytes()[static_cast<size_t>(byte)]).code_point] = byte;
    }
    return out;
  }();
  return table;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

const std::array<std::string, 256>& printable_bytes() {
  static const std::array<std::string, 256> table = make_printable_bytes();
  return table;
}

std::optional<uint8_t> byte_of_printable(std::string_view character) {
  const Utf8Unit unit = utf8_front(character);
  const auto& table = byte_of_code_point();
  if (!unit.valid || unit.bytes != character.size() || unit.code_point >= table.size()) return std::nullopt;
  const int byte = table[unit.code_point];
  return byte < 0 ? std::nullopt : std::optional<uint8_t>(static_cast<uint8_t>(byte));
}

std::string bytes_of_printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view character = text.substr(0, utf8_front(text).bytes);
    if (const auto byte = byte_of_printable(character)) {
      out.push_back(static_cast<char>(*byte));
    } else {
      out.append(character);
    }
    text.remove_prefix(character.size());
  }
  return out;
}

std::optional<uint8_t> byte_of_token_text(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  const int high = hex_digit(text[3]), low = hex_digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<uint8_t>(high * 16 + low);
}

Result<Vocabulary> Vocabulary::build(TokenizerSpec& spec) {
  if (spec.kind == TokenizerKind::kBytePairMerges) {
    return build(spec, [](std::string_view text) -> Result<std::string> { return bytes_of_printable(text); });
  }
  return build(spec, [](std::string_view text) -> Result<std::string> {
    std::string out;
    for (size_t i = 0; i < text.size();) {
      const bool mark = text.substr(i).starts_with(kBlankMark);
      out.push_back(mark ? ' ' : text[i]);
      i += mark ? kBlankMark.size() : 1;
    }
    return out;
  });
}

Result<Vocabulary> Vocabulary::build(TokenizerSpec& spec, PieceMaker piece_of) {
  Vocabulary vocabulary;
  SOLI_RETURN_IF_ERROR(vocabulary.take_tokens(spec));
  SOLI_RETURN_IF_ERROR(vocabulary.take_special_ids(spec));
  vocabulary.find_control_tokens_by_text();
  const auto eom = spec.eom ? std::optional<int32_t>(static_cast<int32_t>(*spec.eom)) : std::nullopt;
  vocabulary.find_end_of_generation(eom);
  SOLI_RETURN_IF_ERROR(vocabulary.decide_additions(spec));
  SOLI_RETURN_IF_ERROR(vocabulary.build_pieces(piece_of));
  vocabulary.chat_templates = std::move(spec.chat_templates);
  return vocabulary;
}

Status Vocabulary::take_tokens(TokenizerSpec& spec) {
  const size_t n = spec.tokens.size();
  if (n == 0) return fail(ErrorKind::kMalformed, "the vocabulary has no tokens");
  if (n > kMaxVocabularyTokens) {
    return fail(ErrorKind::kLimit, "the vocabulary has {} tokens; {} are allowed", n, kMaxVocabularyTokens);
  }
  if (!spec.scores.empty() && spec.scores.size() != n) {
    return fail(ErrorKind::kMalformed, "the vocabulary has {} tokens but {} scores", n, spec.scores.size());
  }
  if (!spec.types.empty() && spec.types.size() != n) {
    return fail(ErrorKind::kMalformed, "the vocabulary has {} tokens but {} token types", n,
                spec.types.size());
  }
  texts_ = std::move(spec.tokens);
  scores_ = std::move(spec.scores);
  ids_.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    if (texts_[i].size() > kMaxTokenBytes) {
      return fail(ErrorKind::kLimit, "token {} has {} bytes; {} are allowed", i, texts_[i].size(),
                  kMaxTokenBytes);
    }
    if (!scores_.empty() && std::isnan(scores_[i])) {
      return fail(ErrorKind::kMalformed, "the score of token {} is not a number", i);
    }
    if (!spec.types.empty()) {
      const int32_t type = spec.types[i];
      if (type < 0 || type > static_cast<int32_t>(TokenType::kByte)) {
        return fail(ErrorKind::kMalformed, "the type of token {} is {}; 0 to 6 are allowed", i, type);
      }
      file_types_.push_back(static_cast<TokenType>(type));
    }
    max_token_bytes_ = std::max(max_token_bytes_, texts_[i].size());
    if (!texts_[i].empty()) ids_.emplace(texts_[i], static_cast<int32_t>(i));
  }
  types_ = file_types_.empty() ? std::vector<TokenType>(n, TokenType::kNormal) : file_types_;
  return {};
}

Status Vocabulary::take_special_ids(const TokenizerSpec& spec) {
  const bool pieces = spec.kind == TokenizerKind::kSentencePiece;
  const auto take = [&](const char* name, std::optional<int64_t> given, int32_t by_default,
                        std::optional<int32_t>& out) -> Status {
    if (given && (*given < 0 || *given >= size())) {
      return fail(ErrorKind::kMalformed, "the id of the {} token is {}; the vocabulary has ids 0 to {}", name,
                  *given, size() - 1);
    }
    if (given) {
      out = static_cast<int32_t>(*given);
    } else if (contains(by_default)) {
      out = by_default;
    }
    return {};
  };
  // Files of SentencePiece models that name no ids mean <unk> <s> </s>.
  SOLI_RETURN_IF_ERROR(take("BOS", spec.bos, pieces ? 1 : -1, bos));
  SOLI_RETURN_IF_ERROR(take("EOS", spec.eos, pieces ? 2 : -1, eos));
  SOLI_RETURN_IF_ERROR(take("EOT", spec.eot, -1, eot));
  SOLI_RETURN_IF_ERROR(take("unknown", spec.unknown, pieces ? 0 : -1, unknown));
  std::optional<int32_t> eom;
  return take("EOM", spec.eom, -1, eom);
}

void Vocabulary::find_control_tokens_by_text() {
  const auto mark = [&](std::string_view text, TokenType type) {
    if (const auto id = find(text)) types_[static_cast<size_t>(*id)] = type;
  };
  for (const auto text : kEndOfTurnTexts) {
    if (!eot) eot = find(text);
    mark(text, TokenType::kControl);
  }
  for (const auto text : kEndOfGenerationTexts) mark(text, TokenType::kControl);
  for (const auto text : kFillInTheMiddleTexts) mark(text, TokenType::kControl);
  for (const auto text : kShownTexts) mark(text, TokenType::kUserDefined);
}

void Vocabulary::find_end_of_generation(std::optional<int32_t> eom) {
  std::vector<int32_t>& ids = end_of_generation;
  for (const auto text : kEndOfGenerationTexts) {
    if (const auto id = find(text)) ids.push_back(*id);
  }
  for (const auto& id : {eos, eot, eom}) {
    if (id) ids.push_back(*id);
  }
  // Where answers have several parts, <|end|> ends one of these only.
  const bool parts = (find("<|return|>") && find("<|call|>")) || (find("<|return|>") && find("<|calls|>")) ||
                     ((find("<|call|>") || find("<|calls|>")) && find("<|flush|>"));
  if (const auto end = find("<|end|>"); parts && end) {
    std::erase(ids, *end);
    types_[static_cast<size_t>(*end)] = TokenType::kUserDefined;
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

Status Vocabulary::decide_additions(const TokenizerSpec& spec) {
  const bool pieces = spec.kind == TokenizerKind::kSentencePiece;
  add_space_prefix = pieces && spec.add_space_prefix.value_or(true);
  add_bos = spec.add_bos.value_or(false);
  add_eos = spec.add_eos.value_or(false);
  if (add_bos && !bos) {
    return fail(ErrorKind::kMalformed, "add_bos_token is true, but the file names no BOS token");
  }
  if (add_eos && !eos) {
    return fail(ErrorKind::kMalformed, "add_eos_token is true, but the file names no EOS token");
  }
  if (!spec.add_bos && pieces) add_bos = bos.has_value();
  return {};
}

std::optional<int32_t> Vocabulary::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::nullopt : std::optional<int32_t>(found->second);
}

TokenType Vocabulary::file_type(int32_t id) const {
  return file_types_.empty() ? TokenType::kNormal : file_types_[static_cast<size_t>(id)];
}

bool Vocabulary::hidden(int32_t id) const {
  const TokenType type = types_[static_cast<size_t>(id)];
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

bool Vocabulary::matched_as_special(int32_t id) const {
  return hidden(id) || types_[static_cast<size_t>(id)] == TokenType::kUserDefined || matched_always(id);
}

Result<std::string> Vocabulary::make_piece(int32_t id, PieceMaker piece_of) const {
  const std::string& text = this->text(id);
  switch (types_[static_cast<size_t>(id)]) {
    case TokenType::kControl:
    case TokenType::kUnknown:
    case TokenType::kUserDefined:
      return text;
    case TokenType::kUndefined:
    case TokenType::kUnused:
      return "";
    case TokenType::kByte:
      if (const auto byte = byte_of_token_text(text)) return std::string(1, static_cast<char>(*byte));
      return text;
    case TokenType::kNormal:
      break;
  }
  return piece_of(text);
}

Status Vocabulary::build_pieces(PieceMaker piece_of) {
  piece_ends_.reserve(texts_.size());
  for (int32_t id = 0; id < size(); ++id) {
    SOLI_ASSIGN_OR_RETURN(const std::string piece, make_piece(id, piece_of));
    if (piece.size() > kMaxPiecesBytes - pieces_.size()) {
      return fail(ErrorKind::kLimit, "the tokens make more than the {} bytes of text allowed",
                  kMaxPiecesBytes);
    }
    pieces_ += piece;
    piece_ends_.push_back(static_cast<uint32_t>(pieces_.size()));
  }
  return {};
}

std::string_view Vocabulary::piece(int32_t id) const {
  const size_t i = static_cast<size_t>(id);
  const uint32_t begin = i == 0 ? 0 : piece_ends_[i - 1];
  return std::string_view(pieces_).substr(begin, piece_ends_[i] - begin);
}

}  // namespace soli
