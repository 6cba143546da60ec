#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace soli {

/// Values of layers x experts, as colours.
struct HeatMap {
  std::vector<int64_t> rows;   // the layers' numbers
  int64_t n_columns = 0;       // experts
  std::vector<double> values;  // [rows][columns]
  double most = 1;             // the value of the last colour; of two sides also -most, of the first
  bool has_two_sides = false;  // else the colours go by the square root, since few values are large
};

/// As an <svg> of one picture with axes, to stand in a page. `id` makes its parts unique. `attributes` are
/// added to the <svg>, and are HTML already.
std::string heat_map_svg(const HeatMap& map, const std::string& id, const std::string& title,
                         const std::string& description, const std::string& attributes);

/// The colours of such maps with the values that stand for them.
std::string colour_legend_svg(double most, bool has_two_sides, const std::string& id,
                              const std::string& title);

}  // namespace soli
