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
#include "kernels/quant/grid_search.h"
#include "kernels/quant/repack.h"
#include "kernels/quant/rounding.h"

#if defined(__clang__)
#pragma clang attribute push(                                                               \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"))), \
    apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")
#endif

#define SOLI_ISA_NAMESPACE avx512
#include "kernels/simd/avx512-inl.h"
// After the vocabulary.
#include "kernels/kernels-inl.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
