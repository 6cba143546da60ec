#include "format/jinja/syntax.h"

namespace soli::jinja {

uint32_t Symbols::find(std::string_view name) const {
  const auto place = numbers_.find(name);
  return place != numbers_.end() ? place->second : kNone;
}

uint32_t Symbols::of(std::string_view name) {
  const auto place = numbers_.find(name);
  if (place != numbers_.end()) return place->second;
  const auto symbol = static_cast<uint32_t>(numbers_.size());
  numbers_.emplace(name, symbol);
  return symbol;
}

}  // namespace soli::jinja
