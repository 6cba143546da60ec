#define PCRE2_CODE_UNIT_WIDTH 8
#include "format/pretokenizer.h"

#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace soli {
namespace {

// The compiled code's stack lies on the heap, so that any thread may call; the patterns of the table need
// less than the first of these.
constexpr size_t kJitStackBytes = size_t{32} << 10;
constexpr size_t kJitStackMaxBytes = size_t{256} << 10;
// Memory of the interpreter, in KiB, where PCRE2 may not write machine code.
constexpr uint32_t kInterpreterHeapKib = 20 * 1024;

std::string pcre2_message(int error) {
  unsigned char buffer[160];
  pcre2_get_error_message(error, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

}  // namespace

struct Pretokenizer::Program {
  std::unique_ptr<pcre2_code, Freer<pcre2_code_free>> code;
};

/// What one call of split() writes to, so that the patterns themselves can be shared by threads.
struct PretokenizerScratch {
  std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>> match{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>> context{
      pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free>> stack{
      pcre2_jit_stack_create(kJitStackBytes, kJitStackMaxBytes, nullptr)};

  /// Backtracking steps are bounded by a multiple of the text's length: no pattern of the table needs more.
  explicit PretokenizerScratch(size_t text_bytes) {
    SOLI_CHECK(match && context && stack, "out of memory");
    const uint64_t steps = 10'000 + 16 * static_cast<uint64_t>(text_bytes);
    pcre2_set_match_limit(context.get(), static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
    pcre2_set_heap_limit(context.get(), kInterpreterHeapKib);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

Pretokenizer::Pretokenizer(const PretokenizerEntry* entry) : entry_(entry) {}
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;
Pretokenizer::~Pretokenizer() = default;

Result<Pretokenizer> Pretokenizer::create(std::string_view name) {
  const PretokenizerEntry* entry = find_pretokenizer(name);
  if (entry == nullptr) {
    return fail(ErrorKind::kUnsupported, "pre-tokenizer '{}' is not known; known are: {}", printable(name),
                pretokenizer_names());
  }
  Pretokenizer pretokenizer(entry);
  for (const std::string_view pattern : entry->patterns) {
    int error = 0;
    size_t offset = 0;
    auto program = std::make_unique<Program>();
    program->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF,
                                      &error, &offset, nullptr));
    SOLI_CHECK(program->code != nullptr, "pattern of {} at byte {}: {}", name, offset, pcre2_message(error));
    // Without leave to write machine code PCRE2 interprets the pattern: slower, with the same result.
    pcre2_jit_compile(program->code.get(), PCRE2_JIT_COMPLETE);
    pretokenizer.programs_.push_back(std::move(program));
  }
  return pretokenizer;
}

Result<std::vector<TextSpan>> Pretokenizer::split(std::string_view text) const {
  SOLI_CHECK(text.size() < UINT32_MAX);
  std::vector<TextSpan> words, next;
  if (text.empty()) return words;
  PretokenizerScratch scratch(text.size());
  words.push_back({0, static_cast<uint32_t>(text.size())});
  for (const auto& program : programs_) {
    next.clear();
    SOLI_RETURN_IF_ERROR(split_further(*program, scratch, text, words, next));
    std::swap(words, next);
  }
  return words;
}

Status Pretokenizer::split_further(const Program& program, PretokenizerScratch& scratch,
                                   std::string_view text, const std::vector<TextSpan>& words,
                                   std::vector<TextSpan>& out) const {
  for (const TextSpan word : words) {
    // The pattern sees the word alone: for a look-ahead the text ends with it.
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data() + word.begin);
    const uint32_t length = word.end - word.begin;
    uint32_t done = 0;
    const auto cut = [&](uint32_t end) {
      if (end > done) out.push_back({word.begin + done, word.begin + end});
      done = end;
    };
    while (done < length) {
      const auto match = [&](uint32_t options) {
        return pcre2_match(program.code.get(), subject, length, done, options | PCRE2_NO_UTF_CHECK,
                           scratch.match.get(), scratch.context.get());
      };
      int found = match(0);
      if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
      if (found == PCRE2_ERROR_NOMATCH) break;
      if (found < 0) {
        return fail(ErrorKind::kLimit, "pre-tokenizer {} gives up at byte {} of the text: {}",
                    entry_->names.front(), word.begin + done, pcre2_message(found));
      }
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(scratch.match.get());
      SOLI_CHECK(range[1] > range[0], "a pattern of {} matches nothing", entry_->names.front());
      cut(static_cast<uint32_t>(range[0]));
      cut(static_cast<uint32_t>(range[1]));
    }
    cut(length);
  }
  return {};
}

}  // namespace soli
