#include <algorithm>

#include "format/hf/pretokenizer.h"

namespace soli::hf {
namespace {

/// Calls `visit(span, is_match)` for the matches and for what lies between them, in order.
template <typename Visit>
void for_each_stretch(const std::vector<TextSpan>& matches, uint32_t size, Visit&& visit) {
  uint32_t done = 0;
  for (const TextSpan match : matches) {
    if (match.begin > done) visit(TextSpan{done, match.begin}, false);
    visit(match, true);
    done = match.end;
  }
  if (size > done) visit(TextSpan{done, size}, false);
}

}  // namespace

void cut_at_matches(const std::vector<TextSpan>& matches, uint32_t size, CutBehavior behavior, bool invert,
                    std::vector<TextSpan>& parts) {
  const auto first = static_cast<ptrdiff_t>(parts.size());
  bool last = false;  // whether the stretch before is a match, and there is one
  for_each_stretch(matches, size, [&](TextSpan span, bool found) {
    const bool match = found != invert;
    bool joins = false;  // the stretch before
    switch (behavior) {
      case CutBehavior::kRemoved:
        if (match) return;
        break;
      case CutBehavior::kIsolated:
        break;
      case CutBehavior::kContiguous:
        joins = match == last;
        break;
      case CutBehavior::kMergedWithPrevious:
        joins = match && !last;
        break;
      case CutBehavior::kMergedWithNext:
        joins = !match && last;
        break;
    }
    last = match;
    if (joins && parts.begin() + first != parts.end()) {
      parts.back().end = span.end;
    } else {
      parts.push_back(span);
    }
  });
  parts.erase(
      std::remove_if(parts.begin() + first, parts.end(), [](TextSpan part) { return part.size() == 0; }),
      parts.end());
}

}  // namespace soli::hf
