// The kernel set of one ISA. An isa/<isa>.cc includes this after its vocabulary, with SOLI_ISA_NAMESPACE
// defined and the target set. Nothing below uses functions of std::, whose inline code could otherwise be
// compiled for this ISA and then be linked into the path of an older machine.

#include "kernels/lanes-inl.h"
// Each of these builds on those above it.
#include "kernels/attention-inl.h"
#include "kernels/probe-inl.h"
#include "kernels/probe_bf16-inl.h"
#include "kernels/rows-inl.h"
// Multiplication.
#include "kernels/numbers-inl.h"
// The products are its parts.
#include "kernels/matmul-inl.h"
#include "kernels/product_q8_of_256-inl.h"
#include "kernels/product_q8_of_32-inl.h"
// Weight types. Some share a table of values or a grid, others the packing of their scales.
#include "kernels/quant/floats-inl.h"
#include "kernels/quant/grid-inl.h"
#include "kernels/quant/k_quant-inl.h"
#include "kernels/quant/table4-inl.h"
// All of types/, one file each: cmake/weight_types.cmake writes this list into the build tree.
#include "kernels/quant/weight_types-inl.h"
// Products of weight types with others.
#include "kernels/product_bf16-inl.h"
#include "kernels/product_f32-inl.h"
// Last: the tables.
#include "kernels/quant/weights-inl.h"

namespace soli::kernels::SOLI_ISA_NAMESPACE {

#define SOLI_STRINGIFY_INNER(x) #x
#define SOLI_STRINGIFY(x) SOLI_STRINGIFY_INNER(x)
constinit const KernelTable kTable = {
    .isa = SOLI_STRINGIFY(SOLI_ISA_NAMESPACE),
    .weights = kWeights,
    .rms_norm = rms_norm,
    .all_finite = all_finite,
    .softmax = softmax,
    .sigmoid = sigmoid,
    .swiglu = swiglu,
    .swiglu_clamped = swiglu_clamped,
    .add = add,
    .add_scaled = add_scaled,
    .to_q8_of_32 = to_q8_of_32,
    .to_q8_of_256 = to_q8_of_256,
    .to_bf16 = to_bf16,
    .f32_to_f16 = f32_to_f16,
    .f16_to_f32 = f16_to_f32,
    .attention_f32 = attention_f32,
    .attention_f16 = attention_f16,
    .read_checksum = read_checksum,
    .probe_fma = probe_fma,
    .probe_dot_i8 = probe_dot_i8,
    .probe_dot_bf16 = probe_dot_bf16,
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
