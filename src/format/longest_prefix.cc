#include "format/longest_prefix.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace soli {

LongestPrefix::LongestPrefix(std::vector<std::string> texts) : texts_(std::move(texts)) {
  for (uint32_t i = 0; i < texts_.size(); ++i) {
    if (!texts_[i].empty()) order_.push_back(i);
  }
  std::sort(order_.begin(), order_.end(),
            [&](uint32_t a, uint32_t b) { return std::tie(texts_[a], a) < std::tie(texts_[b], b); });
  for (uint32_t place = 0; place < order_.size(); ++place) {
    Range& range = first_byte_[static_cast<uint8_t>(at(place).front())];
    if (range.end == 0) range.begin = place;
    range.end = place + 1;
  }
}

int64_t LongestPrefix::find(std::string_view front, FunctionRef<bool(size_t)> allowed) const {
  if (front.empty()) return -1;
  Range range = first_byte_[static_cast<uint8_t>(front.front())];
  int64_t longest = -1;
  // Invariant: the texts of the range have the first `depth` bytes of `front` in common, so those that end
  // there come first.
  for (size_t depth = 1; range.begin < range.end; ++depth) {
    for (; range.begin < range.end && at(range.begin).size() == depth; ++range.begin) {
      const uint32_t index = order_[range.begin];
      const bool same = longest >= 0 && texts_[static_cast<size_t>(longest)].size() == depth;
      if (!same && allowed(index)) longest = index;
    }
    if (range.begin == range.end || depth == front.size()) break;
    const auto next = static_cast<uint8_t>(front[depth]);
    const auto byte = [&](uint32_t place) { return static_cast<uint8_t>(at(place)[depth]); };
    if (byte(range.begin) == next && byte(range.end - 1) == next) continue;
    const auto first = order_.begin() + range.begin, last = order_.begin() + range.end;
    const auto of = [&](uint32_t index) { return static_cast<uint8_t>(texts_[index][depth]); };
    const auto low = std::partition_point(first, last, [&](uint32_t index) { return of(index) < next; });
    const auto high = std::partition_point(low, last, [&](uint32_t index) { return of(index) == next; });
    range = {static_cast<uint32_t>(low - order_.begin()), static_cast<uint32_t>(high - order_.begin())};
  }
  return longest;
}

}  // namespace soli
