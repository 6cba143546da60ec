#if defined(__x86_64__)

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
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif

#define SOLI_ISA_NAMESPACE avx2
#include "kernels/simd/avx2-inl.h"
// After the vocabulary.
#include "kernels/kernels-inl.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
