#define PCRE2_CODE_UNIT_WIDTH 8
#include "format/regex.h"

#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace soli {
namespace {

// The compiled code takes 32 KiB of the caller's stack, which known patterns do not use up, or else this much
// of the heap.
constexpr size_t kJitStackBytes = size_t{256} << 10;
// Memory of the interpreter, in KiB, where PCRE2 may not write machine code.
constexpr uint32_t kInterpreterHeapKib = 20 * 1024;

// Work of patterns with callouts: how many times and over how many bytes they may go, for each byte of the
// text. Those of published tokenizers need less than ten.
constexpr int64_t kWorkPerByte = 300;
constexpr int64_t kLeastWork = 100'000;

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

std::string pcre2_message(int error) {
  unsigned char buffer[160];
  pcre2_get_error_message(error, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

/// The work of the callouts so far. A stretch between two of them counts by its length, whether the pattern
/// went over it or back.
struct Work {
  int64_t left;
  size_t start = 0;     // of the attempt
  size_t position = 0;  // of the last callout in it

  static int count(pcre2_callout_block* callout, void* data) {
    Work& work = *static_cast<Work*>(data);
    if (callout->start_match != work.start) work.start = work.position = callout->start_match;
    const size_t now = callout->current_position;
    work.left -= 1 + static_cast<int64_t>(std::max(now, work.position) - std::min(now, work.position));
    work.position = now;
    return work.left < 0 ? PCRE2_ERROR_MATCHLIMIT : 0;
  }
};

}  // namespace

struct RegexScratch::Parts {
  std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free>> match{pcre2_match_data_create(1, nullptr)};
  std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free>> context{
      pcre2_match_context_create(nullptr)};
  std::unique_ptr<pcre2_jit_stack, Freer<pcre2_jit_stack_free>> stack;  // made when it is needed
  Work work;

  void make_stack() {
    stack.reset(pcre2_jit_stack_create(kJitStackBytes, kJitStackBytes, nullptr));
    SOLI_CHECK(stack != nullptr, "out of memory");
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

RegexScratch::RegexScratch(size_t text_bytes) : text_bytes_(text_bytes) {}

RegexScratch::Parts& RegexScratch::parts() {
  if (parts_ != nullptr) return *parts_;
  parts_ = std::make_unique<Parts>();
  SOLI_CHECK(parts_->match && parts_->context, "out of memory");
  const auto bytes = static_cast<int64_t>(text_bytes_);
  // Backtracking steps of one match, where there are no callouts.
  const int64_t steps = 10'000 + 16 * bytes;
  pcre2_set_match_limit(parts_->context.get(), static_cast<uint32_t>(std::min<int64_t>(steps, UINT32_MAX)));
  pcre2_set_heap_limit(parts_->context.get(), kInterpreterHeapKib);
  parts_->work.left = kLeastWork + kWorkPerByte * bytes;
  pcre2_set_callout(parts_->context.get(), Work::count, &parts_->work);
  return *parts_;
}

RegexScratch::~RegexScratch() = default;

struct Regex::Program {
  std::unique_ptr<pcre2_code, Freer<pcre2_code_free>> code;
};

Regex::Regex(std::unique_ptr<Program> program) : program_(std::move(program)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  const std::unique_ptr<pcre2_compile_context, Freer<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  SOLI_CHECK(context != nullptr, "out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  size_t offset = 0;
  auto program = std::make_unique<Program>();
  program->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                    PCRE2_UTF | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset,
                                    context.get()));
  if (program->code == nullptr) {
    return fail(ErrorKind::kMalformed, "byte {} of the pattern '{}': {}", offset, printable(pattern),
                pcre2_message(error));
  }
  // Without leave to write machine code PCRE2 interprets the pattern: slower, with the same result.
  pcre2_jit_compile(program->code.get(), PCRE2_JIT_COMPLETE);
  return Regex(std::move(program));
}

Status Regex::find_all(std::string_view text, RegexScratch& scratch, std::vector<TextSpan>& matches) const {
  SOLI_CHECK(text.size() < UINT32_MAX);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  RegexScratch::Parts& parts = scratch.parts();
  size_t at = 0, last_end = PCRE2_UNSET;
  const auto match = [&](uint32_t options) {
    parts.work.start = PCRE2_UNSET;
    return pcre2_match(program_->code.get(), subject, text.size(), at, options | PCRE2_NO_UTF_CHECK,
                       parts.match.get(), parts.context.get());
  };
  while (at <= text.size()) {
    int found = match(0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && parts.stack == nullptr) {
      parts.make_stack();
      found = match(0);
    }
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) return {};
    if (found < 0) {
      return fail(ErrorKind::kLimit, "a pattern gives up at byte {} of the text: {}", at,
                  pcre2_message(found));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(parts.match.get());
    at = range[1];
    if (range[0] == range[1] && range[0] == last_end) {
      at += std::max(utf8_front(text.substr(at)).bytes, 1u);
      continue;
    }
    SOLI_CHECK(range[0] <= range[1]);
    matches.push_back({static_cast<uint32_t>(range[0]), static_cast<uint32_t>(range[1])});
    last_end = range[1];
  }
  return {};
}

}  // namespace soli
