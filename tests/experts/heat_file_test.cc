#include "experts/heat_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/file.h"
#include "support/temporary_folder.h"

namespace soli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const HeatOwner kOwner{"demo \"16x2\" é", 2, 3};

Heat small_heat() {
  Heat heat(2, 3, 100);
  heat.pass(0, 10);
  heat.pass(1, 10);
  heat.add(0, 1, 3);
  heat.add(1, 0, 1.0 / 3);
  heat.add(1, 2, 1e-9);
  heat.pass(0, 7);
  return heat;
}

std::string saved_text() {
  const TemporaryFolder folder;
  EXPECT_TRUE(save_heat(folder / "heat.json", kOwner.model, small_heat()));
  return read_file(folder / "heat.json", kMaxHeatFileBytes).value();
}

std::string error_of(std::string_view text, const HeatOwner& owner = kOwner) {
  const auto heat = parse_heat(text, "my.json", owner);
  return heat ? "" : heat.error().message;
}

/// The error of the good file with one part replaced.
std::string error_with(const std::string& part, const std::string& replacement) {
  std::string text = saved_text();
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return error_of(text.replace(at, part.size(), replacement));
}

TEST(HeatFile, GoesOnWhereItWasSaved) {
  const TemporaryFolder folder;
  const Heat heat = small_heat();
  ASSERT_TRUE(save_heat(folder / "heat.json", kOwner.model, heat));
  const auto loaded = load_heat(folder / "heat.json", kOwner);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->half_life_tokens(), 100);
  EXPECT_EQ(loaded->tokens(), 17);
  for (int64_t layer = 0; layer < 2; ++layer) {
    for (int64_t e = 0; e < 3; ++e) EXPECT_EQ(loaded->at(layer, e), heat.at(layer, e));
  }
}

TEST(HeatFile, KeepsAModelNameThatIsNoUtf8) {
  const TemporaryFolder folder;
  const HeatOwner owner{"bad \xff name", 2, 3};
  ASSERT_TRUE(save_heat(folder / "heat.json", owner.model, small_heat()));
  EXPECT_TRUE(load_heat(folder / "heat.json", owner));
}

TEST(HeatFile, GivesTheHottestFirst) {
  Heat heat(2, 3, 100);
  heat.add(0, 2, 1);
  heat.add(1, 1, 5);
  heat.add(1, 0, 1);
  EXPECT_THAT(hottest_first(heat), testing::ElementsAre(4, 2, 3));
}

TEST(HeatFile, RefusesOtherModels) {
  const std::string text = saved_text();
  EXPECT_EQ(error_of(text), "");
  EXPECT_EQ(error_of(text, {"other", 2, 3}), "my.json: model is 'demo \"16x2\" é'; 'other' is allowed");
  EXPECT_EQ(error_of(text, {kOwner.model, 5, 3}), "my.json: n_layers is 2; 5 is allowed");
  EXPECT_EQ(error_of(text, {kOwner.model, 2, 4}), "my.json: n_experts is 3; 4 is allowed");
}

TEST(HeatFile, NamesTheMemberAtFault) {
  EXPECT_EQ(error_with("soli-heat", "soli-head"), "my.json: format is 'soli-head'; 'soli-heat' is allowed");
  EXPECT_EQ(error_with("\"version\":1", "\"version\":2"), "my.json: version is 2; 1 is allowed");
  EXPECT_EQ(error_with("\"version\":1,", ""), "my.json: the file has no 'version'");
  EXPECT_THAT(error_with("\"half_life_tokens\":100.0", "\"half_life_tokens\":0"),
              HasSubstr("my.json: half_life_tokens is 0; a number from"));
  EXPECT_THAT(error_with("\"tokens\":17", "\"tokens\":-1"), HasSubstr("tokens is -1; a whole number from 0"));
  EXPECT_THAT(error_with("\"tokens\":17", "\"tokens\":1.5"), HasSubstr("tokens is 1.5; a whole number"));
  EXPECT_THAT(error_with("\"tokens\":17", "\"tokens\":17,\"tokens\":18"), HasSubstr("stands there twice"));
}

TEST(HeatFile, RefusesNumbersThatNoHeatCanBe) {
  for (const char* const number : {"-1", "-1e-30", "1e19", "null", "\"1\"", "true", "[1]", "{}"}) {
    EXPECT_THAT(error_with("[0,", std::string("[") + number + ","),
                AllOf(HasSubstr("my.json: heat[0][0] is "), HasSubstr("allowed")))
        << number;
  }
  for (const char* const number : {"NaN", "Infinity", "1e309", "-1e309", "0x10", "1e"})
    EXPECT_THAT(error_with("[0,", std::string("[") + number + ","), HasSubstr("my.json: no JSON at byte"))
        << number;
}

TEST(HeatFile, RefusesOtherSizes) {
  EXPECT_EQ(error_with("[0,", "[0,0,"), "my.json: heat[0] has 4 elements; 3 are allowed");
  EXPECT_EQ(error_with("[0,", "["), "my.json: heat[0] has 2 elements; 3 are allowed");
  EXPECT_EQ(error_with("\"heat\":[", "\"heat\":[[1,2,3],"), "my.json: heat has 3 elements; 2 are allowed");
  EXPECT_THAT(error_with("\"heat\":[", "\"heat\":3,\"h\":["), HasSubstr("heat is 3; an array is allowed"));
}

TEST(HeatFile, RefusesWhatIsNoJson) {
  EXPECT_THAT(error_of(""), HasSubstr("my.json: no JSON"));
  EXPECT_THAT(error_of("[]"), HasSubstr("my.json: the file is an array"));
  EXPECT_THAT(error_of(saved_text() + "x"), HasSubstr("no JSON at byte"));
  EXPECT_THAT(error_of(std::string(100000, '[')), HasSubstr("nested deeper than the 64 levels allowed"));
  const std::string text = saved_text();
  for (size_t size = 0; size + 1 < text.size(); ++size)
    EXPECT_THAT(error_of(text.substr(0, size)), HasSubstr("my.json: ")) << size;
}

TEST(HeatFile, RefusesAFileThatIsTooLarge) {
  const TemporaryFolder folder;
  const std::string text(static_cast<size_t>(kMaxHeatFileBytes) + 1, ' ');
  ASSERT_TRUE(write_file(folder / "heat.json", std::as_bytes(std::span(text))));
  const auto heat = load_heat(folder / "heat.json", kOwner);
  ASSERT_FALSE(heat);
  EXPECT_EQ(heat.error().kind, ErrorKind::kLimit);
  EXPECT_THAT(heat.error().message, AllOf(HasSubstr("heat.json"), HasSubstr("32.0 MiB")));
}

}  // namespace
}  // namespace soli
