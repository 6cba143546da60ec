#include <fmt/format.h>

#include <cmath>

#include "observe/profile_page.h"

namespace soli::profile_page {
namespace {

std::string interval_words(const std::optional<Interval>& interval, std::string (*shown)(double)) {
  if (!interval) return "too little text for an interval";
  return fmt::format("95 % interval {} to {}", shown(interval->low), shown(interval->high));
}

std::string verdict_words(const RoutingFigures& total) {
  switch (total.verdict) {
    case Verdict::kBiased:
      return total.variation > kBiasedVariation ? "a few experts get far more of the calls than the others"
                                                : "too many of the experts are never called";
    case Verdict::kRandom:
      return "the experts are used evenly, but which of them a token gets does not depend on the text in any "
             "way "
             "that a shuffling of the tokens would not show as well";
    case Verdict::kBalanced:
      break;
  }
  const bool is_tested = total.resampled.information || total.resampled.stability;
  return is_tested ? "the experts share the work, and which of them a token gets depends on the text"
                   : "the experts share the work; there is too little text to tell their choice from chance";
}

std::string certainty_words(const RoutingFigures& total) {
  if (total.is_certain)
    return "Neither limit of a biased routing lies within its 95 % interval: the verdict is firm.";
  if (!total.resampled.variation) return "There is too little text to say how firm the verdict is.";
  return "A limit of a biased routing lies within its 95 % interval: with other text the verdict may be "
         "another.";
}

/// "p = 0.005", and what it says.
std::string test_words(const PermutationTest& test, const char* beyond, const char* within) {
  return fmt::format("p = {}: {}", shown_number(test.p), test.p <= kSignificantP ? beyond : within);
}

}  // namespace

std::string shown_number(double value) {
  if (std::abs(value) >= 1e4 && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value == 0 ? 0 : value);  // and not "-0"
}

std::string shown_percent(double share) { return shown_number(100 * share) + " %"; }

void add_verdict(const RoutingFigures& total, std::string& page) {
  const auto item = [&](const std::string& sentence) { page += "<li>" + sentence + "</li>\n"; };
  std::string name = name_of(total.verdict);
  name.front() = static_cast<char>(name.front() - 'a' + 'A');
  page +=
      fmt::format("<p class=\"verdict\"><strong>{}</strong>: {}.</p>\n<ul>\n", name, verdict_words(total));
  item(certainty_words(total));
  item(fmt::format("The shares of the experts vary by a CV of {} ({}); above {} a routing is biased.",
                   shown_number(total.variation), interval_words(total.resampled.variation, shown_number),
                   kBiasedVariation));
  item(fmt::format("{} of the experts are never called ({}); above {} a routing is biased.",
                   shown_percent(total.never_called),
                   interval_words(total.resampled.never_called, shown_percent),
                   shown_percent(kBiasedNeverCalled)));
  if (const std::optional<PermutationTest>& test = total.resampled.information) {
    item(fmt::format(
        "A call tells {} bits of its domain, and {} where the same tokens are shuffled over the domains "
        "({}).",
        shown_number(test->observed), shown_number(test->permuted),
        test_words(*test, "the domains are routed differently", "this is no more than chance gives")));
  }
  if (const std::optional<PermutationTest>& test = total.resampled.stability) {
    item(fmt::format(
        "Neighbouring tokens have {} of their experts in common (Jaccard overlap), and {} where the same "
        "tokens are shuffled ({}).",
        shown_number(test->observed), shown_number(test->permuted),
        test_words(*test,
                   test->observed > test->permuted ? "neighbours are routed more alike than others"
                                                   : "neighbours are routed less alike than others",
                   "this is what chance gives")));
  }
  page += "</ul>\n";
}

}  // namespace soli::profile_page
