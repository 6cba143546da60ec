#include "experts/heat_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "base/utf8.h"
#include "format/hf/json.h"
#include "io/file.h"
#include "io/file_writer.h"

namespace soli {
namespace {

constexpr std::string_view kFormat = "soli-heat";
constexpr int64_t kVersion = 1;
// Beyond what any run comes to, and far from where sums of heats would overflow.
constexpr double kMaxHeat = 1e18;
constexpr double kMinHalfLife = 1e-3, kMaxHalfLife = 1e18;
constexpr int64_t kMaxTokens = int64_t{1} << 60;

Status append(FileWriter& writer, std::string_view text) {
  return writer.append(std::as_bytes(std::span(text)));
}

std::string row_text(const Heat& heat, int64_t layer) {
  std::string text = layer == 0 ? "\n[" : ",\n[";
  for (int64_t e = 0; e < heat.n_experts(); ++e)
    fmt::format_to(std::back_inserter(text), "{}{}", e == 0 ? "" : ",", heat.at(layer, e));
  return text + "]";
}

Result<double> number_in(const hf::JsonValue& value, double min, double max) {
  SOLI_ASSIGN_OR_RETURN(const double number, value.number());
  if (std::isfinite(number) && number >= min && number <= max) return number;
  return value.wrong(fmt::format("a number from {} to {}", min, max));
}

Status check_text(const hf::JsonValue& root, std::string_view key, std::string_view wanted) {
  SOLI_ASSIGN_OR_RETURN(const hf::JsonValue value, root.at(key));
  SOLI_ASSIGN_OR_RETURN(const std::string text, value.text());
  if (text == wanted) return {};
  return value.wrong(fmt::format("'{}'", printable(wanted)));
}

Status check_integer(const hf::JsonValue& root, std::string_view key, int64_t wanted) {
  SOLI_ASSIGN_OR_RETURN(const hf::JsonValue value, root.at(key));
  const auto number = value.integer(wanted, wanted);
  return number ? Status() : value.wrong(fmt::format("{}", wanted));
}

Status check_head(const hf::JsonValue& root, const HeatOwner& owner) {
  SOLI_RETURN_IF_ERROR(check_text(root, "format", kFormat));
  SOLI_RETURN_IF_ERROR(check_integer(root, "version", kVersion));
  SOLI_RETURN_IF_ERROR(check_text(root, "model", replace_invalid_utf8(owner.model)));
  SOLI_RETURN_IF_ERROR(check_integer(root, "n_layers", owner.n_layers));
  return check_integer(root, "n_experts", owner.n_experts);
}

/// As many elements as there must be.
Result<std::vector<hf::JsonValue>> elements(const hf::JsonValue& array, int64_t n) {
  SOLI_ASSIGN_OR_RETURN(std::vector<hf::JsonValue> items, array.items(std::numeric_limits<size_t>::max()));
  if (static_cast<int64_t>(items.size()) == n) return items;
  return fail(ErrorKind::kMalformed, "{} has {} elements; {} are allowed", array.path(), items.size(), n);
}

Result<Heat> read_heat(const hf::JsonValue& root, const HeatOwner& owner) {
  SOLI_RETURN_IF_ERROR(check_head(root, owner));
  SOLI_ASSIGN_OR_RETURN(const hf::JsonValue half_life_value, root.at("half_life_tokens"));
  SOLI_ASSIGN_OR_RETURN(const double half_life, number_in(half_life_value, kMinHalfLife, kMaxHalfLife));
  SOLI_ASSIGN_OR_RETURN(const hf::JsonValue tokens_value, root.at("tokens"));
  SOLI_ASSIGN_OR_RETURN(const int64_t tokens, tokens_value.integer(0, kMaxTokens));
  SOLI_ASSIGN_OR_RETURN(const hf::JsonValue rows_value, root.at("heat"));
  SOLI_ASSIGN_OR_RETURN(const std::vector<hf::JsonValue> rows, elements(rows_value, owner.n_layers));
  Heat heat(owner.n_layers, owner.n_experts, half_life, tokens);
  for (int64_t layer = 0; layer < owner.n_layers; ++layer) {
    SOLI_ASSIGN_OR_RETURN(const std::vector<hf::JsonValue> row,
                          elements(rows[static_cast<size_t>(layer)], owner.n_experts));
    for (int64_t e = 0; e < owner.n_experts; ++e) {
      SOLI_ASSIGN_OR_RETURN(const double value, number_in(row[static_cast<size_t>(e)], 0, kMaxHeat));
      heat.add(layer, e, value);
    }
  }
  return heat;
}

}  // namespace

Status save_heat(const std::string& path, std::string_view model, const Heat& heat) {
  SOLI_ASSIGN_OR_RETURN(FileWriter writer, FileWriter::create(path));
  const nlohmann::ordered_json head = {{"format", kFormat},
                                       {"version", kVersion},
                                       {"model", replace_invalid_utf8(model)},
                                       {"n_layers", heat.n_layers()},
                                       {"n_experts", heat.n_experts()},
                                       {"half_life_tokens", heat.half_life_tokens()},
                                       {"tokens", heat.tokens()}};
  std::string text = head.dump();
  text.pop_back();  // its closing brace
  SOLI_RETURN_IF_ERROR(append(writer, text + ",\n\"heat\":["));
  for (int64_t layer = 0; layer < heat.n_layers(); ++layer)
    SOLI_RETURN_IF_ERROR(append(writer, row_text(heat, layer)));
  SOLI_RETURN_IF_ERROR(append(writer, "\n]}\n"));
  return writer.commit();
}

Result<Heat> load_heat(const std::string& path, const HeatOwner& owner) {
  SOLI_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxHeatFileBytes));
  return parse_heat(text, path, owner);
}

Result<Heat> parse_heat(std::string_view text, const std::string& name, const HeatOwner& owner) {
  const auto file = hf::parse_json(text);
  if (!file) return in_context(name, file.error());
  auto heat = read_heat(hf::JsonValue(file->root, ""), owner);
  if (!heat) return in_context(name, heat.error());
  return heat;
}

std::vector<ExpertNumber> hottest_first(const Heat& heat) {
  std::vector<std::pair<double, ExpertNumber>> order;  // by heat, negative
  for (int64_t layer = 0; layer < heat.n_layers(); ++layer) {
    for (int64_t e = 0; e < heat.n_experts(); ++e) {
      const double value = heat.at(layer, e);
      if (value > 0) order.emplace_back(-value, static_cast<ExpertNumber>(layer * heat.n_experts() + e));
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<ExpertNumber> out;
  for (const auto& [negative, expert] : order) out.push_back(expert);
  return out;
}

}  // namespace soli
