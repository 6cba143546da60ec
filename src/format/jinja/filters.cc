#include "format/jinja/filters.h"

namespace soli::jinja {
namespace {

constexpr auto kFamilies = {text_filters, sequence_filters, selection_filters, value_filters};

}  // namespace

const Filter* find_in(std::span<const Filter> filters, std::string_view name) {
  for (const Filter& filter : filters) {
    if (filter.name == name) return &filter;
  }
  return nullptr;
}

const Filter* find_filter(std::string_view name) {
  for (const auto family : kFamilies) {
    if (const Filter* const found = find_in(family(), name)) return found;
  }
  return nullptr;
}

std::string filter_names() {
  std::string names;
  for (const auto family : kFamilies) {
    for (const Filter& filter : family()) names.append(names.empty() ? "" : ", ").append(filter.name);
  }
  return names;
}

}  // namespace soli::jinja
