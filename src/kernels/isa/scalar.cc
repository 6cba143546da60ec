#include <cstdint>
#include <cstring>

#define SOLI_UNROLL  // no unrolling: see compiler.h
#include "kernels/compiler.h"
#include "kernels/half.h"
#include "kernels/isa/isa.h"
#include "kernels/quant/grid_search.h"
#include "kernels/quant/repack.h"
#include "kernels/quant/rounding.h"

#define SOLI_ISA_NAMESPACE scalar
#include "kernels/simd/scalar-inl.h"
// After the vocabulary.
#include "kernels/kernels-inl.h"
