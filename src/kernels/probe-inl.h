// What this ISA can reach at best, in loops without anything else: the ceilings of the other kernels.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

uint64_t read_checksum(const std::byte* bytes, int64_t n) {
  constexpr int kStreams = 8;  // independent, so that no load waits for an operation
  constexpr int64_t kVectorBytes = 64;
  I32 sums[kStreams];
  SOLI_UNROLL
  for (int s = 0; s < kStreams; ++s) sums[s] = S::set1_i(0);
  int64_t i = 0;
  for (; i + kStreams * kVectorBytes <= n; i += kStreams * kVectorBytes) {
    SOLI_UNROLL
    for (int s = 0; s < kStreams; ++s) sums[s] = S::xor_i(sums[s], S::load_i(bytes + i + s * kVectorBytes));
  }
  SOLI_UNROLL
  for (int s = 1; s < kStreams; ++s) sums[0] = S::xor_i(sums[0], sums[s]);
  uint64_t words[8];
  S::store(words, S::as_f32(sums[0]));
  uint64_t checksum = 0;
  for (const uint64_t word : words) checksum ^= word;
  for (; i + 8 <= n; i += 8) {
    uint64_t word;
    __builtin_memcpy(&word, bytes + i, sizeof word);
    checksum ^= word;
  }
  return checksum;
}

int64_t probe_fma(int64_t iterations, float* state) {
  constexpr int kSums = S::kProbeSums;
  static_assert((kSums + 2) * kLanes <= kProbeFmaFloats);
  const F32 x = S::load(state);
  const F32 y = S::load(state + kLanes);
  float* const first = state + 2 * kLanes;
  F32 sums[kSums];
  SOLI_UNROLL
  for (int s = 0; s < kSums; ++s) sums[s] = S::load(first + s * kLanes);
  for (int64_t i = 0; i < iterations; ++i) {
    SOLI_UNROLL
    for (int s = 0; s < kSums; ++s) sums[s] = S::fma(sums[s], x, y);
  }
  SOLI_UNROLL
  for (int s = 0; s < kSums; ++s) S::store(first + s * kLanes, sums[s]);
  return iterations * kSums * kLanes * 2;
}

int64_t probe_dot_i8(int64_t iterations, const int8_t* operands, int32_t* state) {
  constexpr int kSums = S::kProbeSums;
  constexpr int kInputs = 4;  // vectors of activations, in registers
  constexpr int kWeights =
      4;  // vectors of weights, taken in turn: like other kernels, the loop cannot keep one
  constexpr int64_t kVectorBytes = 64;
  static_assert((kInputs + kWeights) * kVectorBytes == kProbeDotBytes && kSums * kLanes <= kProbeDotSums);
  I32 x[kInputs];
  SOLI_UNROLL
  for (int i = 0; i < kInputs; ++i) x[i] = S::load_i(operands + (kWeights + i) * kVectorBytes);
  // From memory, so that no compiler can see that some are equal and compute them once.
  I32 sums[kSums];
  SOLI_UNROLL
  for (int s = 0; s < kSums; ++s) sums[s] = S::load_i(state + s * kLanes);
  for (int64_t i = 0; i < iterations; ++i) {
    const I32 weights = S::load_i(operands + i % kWeights * kVectorBytes);
    SOLI_UNROLL
    for (int s = 0; s < kSums; ++s) sums[s] = S::dot_i8(sums[s], weights, x[s % kInputs]);
  }
  SOLI_UNROLL
  for (int s = 0; s < kSums; ++s) S::store(state + s * kLanes, S::as_f32(sums[s]));
  return iterations * kSums * kVectorBytes * 2;
}

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
