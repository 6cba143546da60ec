// Any tokenizer.json is refused with an error, or encodes any text into tokens that it has.
//
// An input is the file, a zero byte, and the text; without a zero byte there is a text of every kind.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "format/hf/config.h"
#include "format/hf/tokenizer.h"
#include "fuzz/stream_check.h"

namespace {

constexpr std::string_view kText =
    " Hello,  wörld! a\u0301\u0323 中文 123 \n\t<s></s> aaaaaaaaaaaaaaaaaaaa\xFF";

void check_streams(const soli::Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  for (const bool render : {false, true})
    soli::fuzz::check_stream(tokenizer, ids, {.render_special = render});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = input.find('\0');
  const std::string_view file = input.substr(0, end);
  const std::string_view text = end == std::string_view::npos ? kText : input.substr(end + 1);
  (void)soli::hf::parse_config(file);
  const auto tokenizer = soli::hf::make_tokenizer(file, {});
  if (!tokenizer) {
    SOLI_CHECK(!tokenizer.error().message.empty() && soli::is_valid_utf8(tokenizer.error().message));
    return 0;
  }
  for (const bool parse_special : {false, true}) {
    const auto ids = (*tokenizer)->encode(text, {.parse_special = parse_special});
    if (!ids) {
      SOLI_CHECK(soli::is_valid_utf8(ids.error().message), "{}", ids.error().message);
      continue;
    }
    for (const int32_t id : *ids) SOLI_CHECK(id >= 0 && id < (*tokenizer)->vocab_size(), "{}", id);
    check_streams(**tokenizer, *ids);
  }
  return 0;
}
