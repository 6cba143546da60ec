#include "plan/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/units.h"

namespace soli {
namespace {

std::unique_ptr<Runtime> runtime(int n_threads, int64_t memory_bytes = Budget::kUnlimited) {
  auto made = Runtime::create({.n_threads = n_threads, .memory_bytes = memory_bytes});
  EXPECT_TRUE(made.has_value());
  return std::move(*made);
}

TEST(Machine, IsDescribed) {
  const Result<MachineInfo> machine = describe_machine(*runtime(1));
  ASSERT_TRUE(machine.has_value()) << machine.error().message;
  EXPECT_FALSE(machine->cpu_model.empty());
  EXPECT_GE(machine->packages, 1);
  EXPECT_GE(machine->cores, machine->packages);
  EXPECT_GE(machine->logical_cpus, machine->cores);
  EXPECT_GE(machine->usable_cpus, 1);
  EXPECT_GE(machine->numa_nodes, 1);
  EXPECT_GT(machine->ram_bytes, 64 * kMiB);
  EXPECT_FALSE(machine->isas.empty());
  EXPECT_EQ(machine->isas.back(), "scalar");
  int level = 0;
  for (const CacheLevel& cache : machine->caches) {
    EXPECT_GT(cache.level, level);
    EXPECT_GT(cache.bytes, 0);
    EXPECT_GE(cache.count, 1);
    level = cache.level;
  }
}

TEST(Machine, SlabIsLargerThanCachesAndLeavesMemoryFree) {
  MachineInfo machine;
  EXPECT_EQ(bandwidth_slab_bytes(machine), 512 * kMiB);  // nothing known
  machine.ram_bytes = 64 * kGiB;
  machine.caches = {{1, 32 * kKiB, 2}, {3, 192 * kMiB, 1}};
  EXPECT_EQ(bandwidth_slab_bytes(machine), 768 * kMiB);
  machine.caches.back().bytes = kGiB;
  EXPECT_EQ(bandwidth_slab_bytes(machine), kGiB);
  machine.caches.back().bytes = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(bandwidth_slab_bytes(machine), kGiB);
  machine.ram_bytes = kGiB;
  EXPECT_EQ(bandwidth_slab_bytes(machine), 256 * kMiB);
}

void expect_sane(const Measured& measured) {
  EXPECT_GE(measured.passes, 3);
  EXPECT_GT(measured.min, 0);
  EXPECT_LE(measured.min, measured.median);
  EXPECT_LE(measured.median, measured.max);
  EXPECT_LT(measured.max, 1e18);
}

TEST(Machine, IsMeasuredWithOneThreadAndWithAll) {
  MachineInfo machine;
  machine.ram_bytes = 64 * kMiB;  // for a small slab
  for (const int n_threads : {1, 3}) {
    const auto made = runtime(n_threads);
    const Result<MachineCeilings> ceilings = measure_machine(*made, machine, 0.002);
    ASSERT_TRUE(ceilings.has_value()) << ceilings.error().message;
    EXPECT_EQ(ceilings->n_threads, n_threads);
    EXPECT_EQ(ceilings->isa, made->kernels().isa);
    EXPECT_EQ(ceilings->slab_bytes, 16 * kMiB);
    for (const MeasuredByThreads& figure :
         {ceilings->read_bytes_per_s, ceilings->f32_operations_per_s, ceilings->bf16_operations_per_s,
          ceilings->int8_operations_per_s}) {
      expect_sane(figure.one);
      expect_sane(figure.all);
    }
    EXPECT_EQ(made->budget().used_bytes(), 0);
  }
}

TEST(Machine, RefusesWhatItCannotMeasure) {
  const MachineInfo machine;
  for (const double seconds : {0.0, -1.0, 61.0, std::numeric_limits<double>::quiet_NaN()}) {
    const auto refused = measure_machine(*runtime(1), machine, seconds);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(refused.error().message, testing::HasSubstr("0.001 to 60"));
  }
  const auto refused = measure_machine(*runtime(1, kMiB), machine, 0.01);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::kLimit);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("bandwidth probe"));
}

}  // namespace
}  // namespace soli
