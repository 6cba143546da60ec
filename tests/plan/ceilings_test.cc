#include "plan/ceilings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/known_machines.h"

namespace soli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Ceilings kCeilings = {.read_bytes_per_s = 50e9, .operations_per_s = {400e9, 800e9, 1600e9}};

TEST(Shares, BytesAreHeldAgainstTheBandwidth) {
  Work work;
  work.weight_bytes = 20'000'000'000;
  work.kv_bytes = 5'000'000'000;
  EXPECT_DOUBLE_EQ(shares_of(work, 1, kCeilings).bandwidth, 0.5);
  EXPECT_DOUBLE_EQ(shares_of(work, 0.25, kCeilings).bandwidth, 2);
  EXPECT_EQ(shares_of(work, 1, kCeilings).peak, 0);
  EXPECT_EQ(shares_of(work, 0, kCeilings).bandwidth, 0);
}

TEST(Shares, OperationsAreHeldAgainstThePeakOfTheirKind) {
  Work work;
  work.weight_operations = {100'000'000'000, 80'000'000'000,
                            800'000'000'000};  // a quarter, a tenth, half of a second
  work.kv_operations = 40'000'000'000;         // a tenth
  EXPECT_DOUBLE_EQ(shares_of(work, 1, kCeilings).peak, 0.95);
  EXPECT_DOUBLE_EQ(shares_of(work, 2, kCeilings).peak, 0.475);
}

TEST(Shares, AboveTheWholeAreNotBelieved) {
  EXPECT_FALSE(distrust("x", {.bandwidth = 1, .peak = 1}));
  EXPECT_THAT(*distrust("decode, head", {.bandwidth = 1.2, .peak = 0}),
              AllOf(HasSubstr("decode, head"), HasSubstr("120.0 %")));
  EXPECT_THAT(*distrust("x", {.bandwidth = 0, .peak = 1.1}), HasSubstr("110.0 % of the peak"));
}

TEST(Ceilings, AreTheMediansOfAllThreads) {
  MachineCeilings measured;
  measured.read_bytes_per_s.one.median = 1;
  measured.read_bytes_per_s.all = {.min = 2, .median = 3, .max = 4};
  measured.f32_operations_per_s.all.median = 5;
  measured.bf16_operations_per_s.all.median = 6;
  measured.int8_operations_per_s.all.median = 7;
  const Ceilings ceilings = ceilings_of(measured);
  EXPECT_EQ(ceilings.read_bytes_per_s, 3);
  EXPECT_EQ(ceilings.operations_per_s, (std::array<double, kArithmetics>{5, 6, 7}));
}

TEST(Ceilings, TheLargerFigureCounts) {
  const Ceilings larger = larger_of({1, {20, 3, 4}}, {10, {2, 30, 5}});
  EXPECT_EQ(larger.read_bytes_per_s, 10);
  EXPECT_EQ(larger.operations_per_s, (std::array<double, kArithmetics>{20, 30, 5}));
}

TEST(Ceilings, AChangeOfMoreThanATenthIsDistrusted) {
  Ceilings after = kCeilings;
  after.read_bytes_per_s = 45.1e9;
  after.operations_per_s[0] = 440e9;
  EXPECT_THAT(distrust(kCeilings, after, nullptr), IsEmpty());
  after.read_bytes_per_s = 44.9e9;
  after.operations_per_s[2] = 1800e9;
  EXPECT_THAT(distrust(kCeilings, after, nullptr),
              ElementsAre(AllOf(HasSubstr("memory read"), HasSubstr("50.0 GB/s before and 44.9")),
                          AllOf(HasSubstr("8-bit dot peak"), HasSubstr("1800.0 after"))));
}

MachineInfo zen5() {
  MachineInfo machine;
  machine.cpu_vendor = "AuthenticAMD";
  machine.cpu_family = 26;
  machine.usable_cpus = 2;
  return machine;
}

TEST(Ceilings, FarBelowWhatSuchAMachineHasShownIsDistrusted) {
  const KnownMachine* const known = find_known_machine(zen5(), "avx512", 2);
  ASSERT_NE(known, nullptr);
  EXPECT_THAT(distrust(known->least, known->least, known), IsEmpty());
  Ceilings low = known->least;
  low.operations_per_s[0] *= 0.89;
  EXPECT_THAT(distrust(low, low, known), ElementsAre(AllOf(HasSubstr("f32 peak"), HasSubstr(known->name))));
  EXPECT_THAT(distrust(low, low, nullptr), IsEmpty());
}

TEST(KnownMachines, AreOfOneKindWithAllOfTheirCores) {
  EXPECT_EQ(find_known_machine(zen5(), "avx512", 1), nullptr);
  EXPECT_EQ(find_known_machine(zen5(), "avx2", 2), nullptr);
  EXPECT_EQ(find_known_machine(MachineInfo{}, "avx512", 2), nullptr);
  MachineInfo larger = zen5();
  larger.usable_cpus = 4;
  EXPECT_EQ(find_known_machine(larger, "avx512", 4), nullptr);
}

}  // namespace
}  // namespace soli
