#include <algorithm>

#include "format/pretokenizer.h"

// The patterns, from the tokenizer.json files of the models and from llama.cpp. Written for PCRE2 with these
// rules, which keep every match linear in the bytes that it looks at:
//  * every repetition that needs no giving back is possessive;
//  * `\s` is spelled out, since PCRE2's own differs from that of the models in U+180E;
//  * a pattern that is anchored at the end of the text does not begin inside a run of blanks.

// Members of a character class: all blanks of Unicode (White_Space).
#define BLANKS R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"

#define BLANK "[" BLANKS "]"
#define BLANKS_BEFORE_A_WORD BLANK "+(?![^" BLANKS "])"
#define ASCII_PUNCTUATION R"(!-/:-@\[-`{-~)"
#define LOWER_CONTRACTION "'(?:[sdmt]|ll|ve|re)"
#define CONTRACTION "'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])"
#define OTHER_CHARACTERS " ?[^" BLANKS R"(\p{L}\p{N}]++)"
#define LETTERS_WITH_LEAD R"([^\r\n\p{L}\p{N}]?\p{L}++)"
#define BLANKS_TO_LAST_NEWLINE BLANK R"(*[\r\n]++)"

// Letters that may stand in an upper-case, and in a lower-case, part of a word.
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define CAPITALISED_WORD R"([^\r\n\p{L}\p{N}]?)" UPPER "*" LOWER "++"
#define UPPER_CASE_WORD R"([^\r\n\p{L}\p{N}]?)" UPPER "++" LOWER "*+"

// The same, all in a class each since they are written as what they are not: Chinese characters stand apart.
#define CHINESE R"(\p{sc:Han})"
#define NO_LETTER_OR_MARK R"(\p{C}\p{N}\p{P}\p{S}\p{Z})"
#define UPPER_NOT_CHINESE "[^" NO_LETTER_OR_MARK R"(\p{Ll})" CHINESE "]"
#define LOWER_NOT_CHINESE "[^" NO_LETTER_OR_MARK R"(\p{Lu}\p{Lt})" CHINESE "]"

// The cased letters that DeepSeek's first tokenizer lists: those of Unicode 11 in some scripts.
#define LISTED_LETTERS                                                                          \
  R"(A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"       \
  R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})" \
  R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"       \
  R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"    \
  R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"    \
  R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"              \
  R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"             \
  R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"    \
  R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"      \
  R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"              \
  R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"              \
  R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"     \
  R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"    \
  R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"                 \
  R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"             \
  R"(\x{1E900}-\x{1E943})"

#define GPT2_PATTERN \
  LOWER_CONTRACTION R"(| ?\p{L}++| ?\p{N}++|)" OTHER_CHARACTERS "|" BLANKS_BEFORE_A_WORD "|" BLANK "++"
#define LLAMA3_PATTERN_WITH_DIGITS(digits)                                                                \
  CONTRACTION "|" LETTERS_WITH_LEAD "|" digits "|" OTHER_CHARACTERS R"([\r\n]*+|)" BLANKS_TO_LAST_NEWLINE \
              "|" BLANKS_BEFORE_A_WORD "|" BLANK "++"

namespace soli {

const std::vector<PretokenizerEntry>& pretokenizer_table() {
  static const std::vector<PretokenizerEntry> table = {
      {.names = {"default"},
       .patterns = {R"([\p{P}$+<=>^~|]++)", GPT2_PATTERN, R"(\p{N}++)", "[0-9][0-9][0-9]"}},
      {.names = {"gpt-2", "olmo", "phi-2", "mpt", "exaone4"}, .patterns = {GPT2_PATTERN}},
      {.names = {"starcoder", "refact", "smollm", "command-r"}, .patterns = {R"(\p{N})", GPT2_PATTERN}},
      {.names = {"llama3", "llama-v3", "llama-bpe"},
       .patterns = {LLAMA3_PATTERN_WITH_DIGITS(R"(\p{N}{1,3}+)")},
       .whole_words_first = true,
       .adds_bos = true},
      {.names = {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"},
       .patterns = {LLAMA3_PATTERN_WITH_DIGITS(R"(\p{N}{1,3}+)")}},
      {.names = {"qwen2", "deepseek-r1-qwen", "megrez", "grok-2", "stablelm2", "hunyuan"},
       .patterns = {LLAMA3_PATTERN_WITH_DIGITS(R"(\p{N})")}},
      {.names = {"qwen35"},
       .patterns = {CONTRACTION R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]++|\p{N}| ?[^)" BLANKS
                                R"(\p{L}\p{M}\p{N}]++[\r\n]*+|)" BLANKS_TO_LAST_NEWLINE
                                "|" BLANKS_BEFORE_A_WORD "|" BLANK "++"}},
      {.names = {"bailingmoe", "bailingmoe2", "llada-moe"},
       .patterns = {CONTRACTION "|" LETTERS_WITH_LEAD R"(|\p{N}|)" OTHER_CHARACTERS R"([\r\n]*+|)" BLANK
                                R"(*[\r\n]|)" BLANKS_BEFORE_A_WORD "|" BLANK "++"}},
      {.names = {"gpt-4o", "llama4", "minimax-m2"},
       .patterns = {CAPITALISED_WORD "(?:" CONTRACTION ")?+|" UPPER_CASE_WORD "(?:" CONTRACTION
                                     R"()?+|\p{N}{1,3}+|)" OTHER_CHARACTERS
                                     R"([\r\n/]*+|)" BLANKS_TO_LAST_NEWLINE "|" BLANKS_BEFORE_A_WORD "|" BLANK
                                     "++"}},
      {.names = {"kimi-k2"},
       .patterns = {CHINESE R"(++|[^\r\n\p{L}\p{N}]?)" UPPER_NOT_CHINESE "*" LOWER_NOT_CHINESE
                            "++(?:" CONTRACTION R"()?+|[^\r\n\p{L}\p{N}]?)" UPPER_NOT_CHINESE
                            "++" LOWER_NOT_CHINESE "*+(?:" CONTRACTION R"()?+|\p{N}{1,3}+|)" OTHER_CHARACTERS
                            R"([\r\n]*+|)" BLANKS_TO_LAST_NEWLINE "|" BLANKS_BEFORE_A_WORD "|" BLANK "++"}},
      {.names = {"tekken"},
       .patterns = {CAPITALISED_WORD "|" UPPER_CASE_WORD R"(|\p{N}|)" OTHER_CHARACTERS
                                     R"([\r\n/]*+|)" BLANKS_TO_LAST_NEWLINE "|" BLANKS_BEFORE_A_WORD "|" BLANK
                                     "++"},
       .whole_words_first = true,
       .adds_bos = true},
      {.names = {"deepseek-llm"},
       .patterns = {R"([\r\n])", BLANK "?[" LISTED_LETTERS "]++",
                    BLANK
                    R"(?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]++)",
                    "(?<!" BLANK ")" BLANK R"(++\z)",
                    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]++)", R"(\p{N}++)"}},
      {.names = {"deepseek-coder"},
       .patterns = {R"([\r\n])", BLANK R"(?\p{L}++)", BLANK R"(?\p{P}++)",
                    R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]++)", R"(\p{N})"}},
      {.names = {"deepseek-v3", "hunyuan-dense"},
       .patterns = {R"(\p{N}{1,3}+)", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]++)",
                    "[" ASCII_PUNCTUATION R"(][A-Za-z]++|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]++)"
                    R"(| ?[\p{P}\p{S}]++[\r\n]*+|)" BLANKS_TO_LAST_NEWLINE "|" BLANKS_BEFORE_A_WORD "|" BLANK
                    "++"}},
  };
  return table;
}

const PretokenizerEntry* find_pretokenizer(std::string_view name) {
  for (const PretokenizerEntry& entry : pretokenizer_table()) {
    if (std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end()) return &entry;
  }
  return nullptr;
}

std::string pretokenizer_names() {
  std::vector<std::string_view> names;
  for (const PretokenizerEntry& entry : pretokenizer_table()) {
    names.insert(names.end(), entry.names.begin(), entry.names.end());
  }
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace soli
