// Any tokens, with any stop strings, are the text that a search in the whole of it gives, and every piece of
// it is UTF-8.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "fuzz/stream_check.h"
#include "serve/openai/choice_text.h"
#include "support/served.h"

namespace {

using namespace soli;          // NOLINT
using namespace soli::openai;  // NOLINT

struct Cut {
  std::string text;
  bool stopped = false;
};

/// Looks at every end of every stop string, the plain way.
Cut cut_at_first(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      const bool is_here = stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0;
      if (is_here) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

void check(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
           const std::vector<std::string>& stops) {
  ChoiceText text(tokenizer, stops, true);
  std::string joined;
  size_t n_tokens = 0;
  const auto take = [&](const TextPiece& piece) {
    SOLI_CHECK(is_valid_utf8(piece.text));
    joined += piece.text;
    for (const TextToken& token : piece.tokens) SOLI_CHECK(token.token == ids[n_tokens++]);
  };
  for (const int32_t id : ids) take(text.push({.token = id}));
  take(text.finish());
  const Cut cut = cut_at_first(replace_invalid_utf8(tokenizer.decode(ids)), stops);
  SOLI_CHECK(joined == cut.text);
  SOLI_CHECK(text.stopped() == cut.stopped);
  SOLI_CHECK(text.stopped() || n_tokens == ids.size());
}

}  // namespace

/// The first byte says how many stop strings follow, each a line; the rest are tokens.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 4096) return 0;
  static const Served served;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<std::string> stops;
  for (int i = 0; i < data[0] % 5; ++i) {
    const size_t end = rest.find('\n');
    if (end == rest.npos) break;
    if (end > 0 && is_valid_utf8(rest.substr(0, end))) stops.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end + 1);
  }
  std::vector<int32_t> ids;
  for (const char byte : rest) {
    const auto id = static_cast<unsigned char>(byte);
    ids.push_back(id < 4 ? kHello + id : id);  // the long tokens and the hidden ones take part
  }
  check(*served.model.tokenizer, ids, stops);
  soli::fuzz::check_stream(*served.model.tokenizer, ids, {.render_special = (data[0] & 128) != 0});
  return 0;
}
