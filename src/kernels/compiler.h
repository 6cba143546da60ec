#pragma once

// What GCC and clang spell differently.

/// Vectors are passed in registers only if the function disappears.
#define SOLI_INLINE inline __attribute__((always_inline))

/// Before a loop with a constant count whose variables must live in registers.
#if defined(SOLI_UNROLL)
// The scalar ISA keeps its loops: its vectors are arrays, which no unrolling puts in registers.
#elif defined(__clang__)
#define SOLI_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SOLI_UNROLL _Pragma("GCC unroll 16")
#endif
