#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "observe/colour_map.h"
#include "observe/expert_clusters.h"
#include "observe/heat_map.h"
#include "observe/html_text.h"
#include "observe/line_plot.h"
#include "observe/profile_report.h"
#include "observe/simulated_routing.h"

namespace soli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(HtmlText, NothingOfANameIsMarkup) {
  EXPECT_EQ(html_text("<a href=\"x\" title='y'>&amp;"),
            "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;amp;");
  EXPECT_EQ(html_text("a\tb\r\nc"), "a b  c");
  EXPECT_EQ(html_text(std::string_view("\0\x1B[2J\x7F", 6)), "\uFFFD\uFFFD[2J\uFFFD");
  EXPECT_EQ(html_text("\xFF\xC3"), "\uFFFD\uFFFD");
  EXPECT_EQ(html_text("a\u202Eb\u2066\u200F\u061C"), "a\uFFFDb\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(html_text("größe 漢字"), "größe 漢字");
}

TEST(HtmlText, JsonCannotEndItsElement) {
  EXPECT_EQ(json_in_html(R"({"a":"</script><!--"})"), R"({"a":"\u003c/script>\u003c!--"})");
}

TEST(ColourMap, EndsAndMiddle) {
  EXPECT_EQ(one_sided_colour(0), 0);
  EXPECT_EQ(one_sided_colour(1), kColours - 1);
  EXPECT_EQ(one_sided_colour(7), kColours - 1);
  EXPECT_EQ(one_sided_colour(-7), 0);
  EXPECT_EQ(two_sided_colour(0), (kColours - 1) / 2);
  EXPECT_EQ(two_sided_colour(-1), 0);
  const Colour middle = two_sided_colours().at(two_sided_colour(0));
  EXPECT_EQ(middle.red, 0xF7);
  EXPECT_EQ(middle.blue, 0xF7);
  EXPECT_EQ(one_sided_colours().back().red, 0xFD);
}

TEST(ColourMap, OneSidedColoursGrowBrighter) {
  double before = -1;
  for (const Colour& colour : one_sided_colours()) {
    const double bright = 0.2126 * colour.red + 0.7152 * colour.green + 0.0722 * colour.blue;
    EXPECT_GT(bright, before - 0.5);
    before = bright;
  }
}

TEST(ExpertClusters, AreWhatPairsAboveTheLimitJoin) {
  const ExpertPair pairs[] = {
      {0, 3, 9, 4.0}, {3, 5, 9, 2.0}, {1, 2, 9, 3.0}, {2, 5, 9, 1.99}, {4, 6, 9, 0.5}};
  EXPECT_THAT(expert_clusters(pairs, 7), ElementsAre(ElementsAre(0, 3, 5), ElementsAre(1, 2)));
  EXPECT_THAT(expert_clusters({}, 7), ElementsAre());
  const ExpertPair chain[] = {{2, 3, 9, 4.0}, {1, 2, 9, 4.0}, {0, 1, 9, 4.0}};
  EXPECT_THAT(expert_clusters(chain, 4), ElementsAre(ElementsAre(0, 1, 2, 3)));
}

TEST(LinePlot, InAPageItHasTitleDescriptionAndEscapedNames) {
  const Plot plot = {.title = "<t>",
                     .x_label = "x",
                     .y_label = "y",
                     .lines = {{"<a>", {{1, 2}, {2, 3}}}},
                     .x_ticks = {{1, "one"}, {2, "two"}}};
  const std::string svg = inline_svg(plot, "p", "said \"so\"");
  EXPECT_THAT(svg, HasSubstr("aria-labelledby=\"p-title p-desc\""));
  EXPECT_THAT(svg,
              HasSubstr("<title id=\"p-title\">&lt;t&gt;</title><desc id=\"p-desc\">said &quot;so&quot;"));
  EXPECT_THAT(svg, HasSubstr("<title>&lt;a&gt;, two: 3</title>"));
  EXPECT_THAT(svg, Not(HasSubstr("<a>")));
  EXPECT_THAT(html_legend(plot.lines), HasSubstr("<bdi>&lt;a&gt;</bdi>"));
  EXPECT_THAT(render_svg({plot, plot}), HasSubstr("height=\"640\""));
}

TEST(LinePlot, ManyLinesHaveDashesToo) {
  Plot plot = {.title = "", .x_label = "", .y_label = "", .lines = {}};
  for (int i = 0; i < 9; ++i) plot.lines.push_back({"l", {{0, 1}}});
  const std::string legend = html_legend(plot.lines);
  EXPECT_THAT(legend,
              HasSubstr("class=\"line c1\" stroke=\"#d55e00\" stroke-width=\"1.5\" stroke-dasharray"));
  EXPECT_THAT(legend, HasSubstr("class=\"line c6\" stroke=\"#7f7f7f\" stroke-width=\"1.5\" x1"));
}

TEST(HeatMap, OneCellAndNoRangeAtAll) {
  for (const bool has_two_sides : {false, true}) {
    const HeatMap map = {
        .rows = {7}, .n_columns = 1, .values = {0}, .most = 0, .has_two_sides = has_two_sides};
    const std::string svg = heat_map_svg(map, "m", "t", "d", "data-x=\"1\"");
    EXPECT_THAT(svg, HasSubstr(">7</text>"));
    EXPECT_THAT(svg, HasSubstr("href=\"data:image/png;base64,iVBORw0KGgo"));
  }
}

TEST(ProfileHtml, OneTokenAndHostileNames) {
  RoutingProfile profile = simulated_profile(simulated_shape(4, 1), 1);
  profile.model = "</title><script>x</script>";
  profile.domains.at(0).name = "\xFF<b>";
  add_window(profile, 0, {{0, 1}});
  const ProfileReport report = make_profile_report(profile, nullptr, 1);
  const ProfileSource source = {
      .model_file = "\"><i>", .data = "<u>", .policy = "{\"bias\":\"<s>\"}", .is_complete = false};
  const std::string page = render_html(report, source);
  for (const char* tag : {"<script>x", "<b>", "<i>", "<u>", "<s>"}) EXPECT_THAT(page, Not(HasSubstr(tag)));
  EXPECT_THAT(page, HasSubstr("The run was stopped before all was read"));
  EXPECT_THAT(page, HasSubstr("There is too little text to say how firm the verdict is."));
  EXPECT_EQ(render_html(report, source), page);
}

}  // namespace
}  // namespace soli
