#pragma once

// Which of some texts stands at the front of another.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace soli {

/// Immutable; any thread may use it.
class LongestPrefix {
 public:
  LongestPrefix() = default;
  /// Empty texts are never found. Of equal texts the first is.
  explicit LongestPrefix(std::vector<std::string> texts);

  bool empty() const { return order_.empty(); }
  const std::string& text(size_t index) const { return texts_[index]; }
  /// Index of the longest of the texts that `text` begins with and that `allowed` lets through, or -1. Takes
  /// time in proportion to its length, with a logarithm of the number of texts.
  int64_t find(std::string_view text, FunctionRef<bool(size_t)> allowed) const;

 private:
  struct Range {
    uint32_t begin = 0, end = 0;
  };

  const std::string& at(uint32_t place) const { return texts_[order_[place]]; }

  std::vector<std::string> texts_;
  std::vector<uint32_t> order_;        // indices of texts_, sorted by text
  std::array<Range, 256> first_byte_;  // places in order_
};

}  // namespace soli
