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
namespace avxvnni {
extern const KernelTable kTable;
}
namespace avx512 {
extern const KernelTable kTable;  // bfloat16 dots are emulated
}
namespace avx512_bf16 {
// What replaces the emulation.
void matmul_bf16(const MatmulTile& tile);
int64_t probe_dot_bf16(int64_t iterations, const uint16_t* operands, float* state);
}  // namespace avx512_bf16
#endif

}  // namespace soli::kernels
