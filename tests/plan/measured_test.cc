#include "plan/measured.h"

#include <gtest/gtest.h>

namespace soli {
namespace {

TEST(Measured, IsSummedUpByOrder) {
  const Measured odd = summary_of({3, 1, 2});
  EXPECT_EQ(odd.min, 1);
  EXPECT_EQ(odd.median, 2);
  EXPECT_EQ(odd.max, 3);
  EXPECT_EQ(odd.passes, 3);
  EXPECT_EQ(summary_of({4, 1, 3, 2}).median, 3);
  EXPECT_EQ(summary_of({7}).min, 7);
}

}  // namespace
}  // namespace soli
