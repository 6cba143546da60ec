#if defined(__x86_64__)

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of the undefined registers with which its own intrinsics begin (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

// Everything that is not ours comes before the target: its inline functions stay what the oldest machine
// runs.
#include <immintrin.h>

#include <cstdint>

#include "kernels/compiler.h"
#include "kernels/half.h"
#include "kernels/isa/isa.h"
#include "kernels/quant/repack.h"
#include "kernels/quant/rounding.h"

#if defined(__clang__)
#pragma clang attribute push(                                                                          \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16"))), \
    apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16")
#endif

#define SOLI_ISA_NAMESPACE avx512_bf16
#define SOLI_ISA_HAS_BF16
#include "kernels/simd/avx512-inl.h"
// After the vocabulary, only what bfloat16 products are made of.
#include "kernels/lanes-inl.h"
#include "kernels/matmul-inl.h"
#include "kernels/probe_bf16-inl.h"
#include "kernels/quant/floats-inl.h"
// The product.
#include "kernels/product_bf16-inl.h"

namespace soli::kernels::avx512_bf16 {

void matmul_bf16(const MatmulTile& tile) { matmul<Bf16Product>(tile); }

}  // namespace soli::kernels::avx512_bf16

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
