// The ceiling of bfloat16 dots (probe-inl.h).

namespace soli::kernels::SOLI_ISA_NAMESPACE {

int64_t probe_dot_bf16(int64_t iterations, const uint16_t* operands, float* state) {
  constexpr int kSums = S::kProbeSums;
  constexpr int kVectors = 4;  // of weights, taken in turn, and of activations, in registers
  static_assert(2 * kVectors * kLanes * 2 == kProbeBf16Operands && kSums * kLanes <= kProbeDotSums);
  I32 x[kVectors];
  SOLI_UNROLL
  for (int i = 0; i < kVectors; ++i) x[i] = S::load_i(operands + (kVectors + i) * kLanes * 2);
  F32 sums[kSums];
  SOLI_UNROLL
  for (int s = 0; s < kSums; ++s) sums[s] = S::load(state + s * kLanes);
  for (int64_t i = 0; i < iterations; ++i) {
    const I32 weights = S::load_i(operands + i % kVectors * kLanes * 2);
    SOLI_UNROLL
    for (int s = 0; s < kSums; ++s) sums[s] = S::dot_bf16(sums[s], weights, x[s % kVectors]);
  }
  SOLI_UNROLL
  for (int s = 0; s < kSums; ++s) S::store(state + s * kLanes, sums[s]);
  return iterations * kSums * kLanes * 4;
}

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
