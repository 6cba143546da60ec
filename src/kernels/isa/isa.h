#pragma once

// The tables of all ISAs that a build can have. Only dispatch may touch one, after it has asked the machine.

#include "kernels/kernel_table.h"

namespace soli::kernels {

namespace scalar {
extern const KernelTable kTable;
}
#if defined(__x86_64__)
namespace avx2 {
extern const KernelTable kTable;
}
namespace avx512 {
extern const KernelTable kTable;
}
#endif

}  // namespace soli::kernels
