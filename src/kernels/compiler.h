#pragma once

// What compilers and builds spell differently.

/// Vectors are passed in registers only if the function disappears.
#define SOLI_INLINE inline __attribute__((always_inline))

// In sanitised builds the checks in every unrolled step would take minutes to compile. (GCC 12 knows no
// __has_feature.)
#if defined(__has_feature)
#if (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer)) && !defined(SOLI_UNROLL)
#define SOLI_UNROLL
#endif
#endif

/// Before a loop with a constant count whose variables must live in registers. The scalar ISA defines it
/// empty: its vectors are arrays, which no unrolling puts in registers.
#if defined(SOLI_UNROLL)
#elif defined(__clang__)
#define SOLI_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SOLI_UNROLL _Pragma("GCC unroll 16")
#endif
