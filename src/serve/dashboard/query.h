#pragma once

// What follows '?' in a request for figures.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/openai/api_error.h"

namespace soli::serve {

/// Parameters by name. Fails with 400 for one that is not known, that stands there twice, or whose value is
/// wrong; the error names it and what is allowed.
class Query {
 public:
  static openai::ApiResult<Query> parse(std::string_view text, const std::vector<std::string_view>& known);

  /// A whole number in decimal digits, from 0 to 2^53: what a page's script can count to.
  openai::ApiResult<int64_t> integer(std::string_view name, int64_t otherwise) const;
  openai::ApiResult<bool> boolean(std::string_view name, bool otherwise) const;
  /// The position of a tier of HeatHistory by its name.
  openai::ApiResult<size_t> tier() const;

 private:
  const std::string* find(std::string_view name) const;

  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace soli::serve
