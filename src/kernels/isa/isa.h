#pragma once

// The tables of all ISAs that a build has (SOLI_VECTOR_ISAS). Only dispatch may touch one, after it has asked
// the machine.

#include "kernels/kernel_table.h"

namespace soli::kernels {

namespace scalar {
extern const KernelTable kTable;
}
#if defined(__x86_64__) && !defined(SOLI_WITHOUT_AVX2)
#define SOLI_HAS_AVX2
namespace avx2 {
extern const KernelTable kTable;
}
#endif
#if defined(__x86_64__) && !defined(SOLI_WITHOUT_AVXVNNI)
#define SOLI_HAS_AVXVNNI
namespace avxvnni {
extern const KernelTable kTable;
}
#endif
#if defined(__x86_64__) && !defined(SOLI_WITHOUT_AVX512)
#define SOLI_HAS_AVX512
namespace avx512 {
extern const KernelTable kTable;  // bfloat16 dots are emulated
}
#endif
#if defined(__x86_64__) && !defined(SOLI_WITHOUT_AVX512_BF16)
#define SOLI_HAS_AVX512_BF16
namespace avx512_bf16 {
// What replaces the emulation.
void matmul_bf16(const MatmulTile& tile);
int64_t probe_dot_bf16(int64_t iterations, const uint16_t* operands, float* state);
}  // namespace avx512_bf16
#endif

}  // namespace soli::kernels
