// The 16-lane vocabulary in plain C++: the oracle of the other ISAs, and what runs where they do not.
// Each operation's meaning is defined here, NaN and signed zeros included.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

struct Simd {
  struct F32 {
    float lane[16];
  };
  struct I32 {
    int32_t lane[16];
  };

  /// A tile of matmul, so many strips by so many tokens: as many accumulators as fit the registers.
  static constexpr int kTileStrips = 1;
  static constexpr int kTileTokens = 2;
  /// The same for a product with two accumulators for each output.
  static constexpr int kTwofoldTileStrips = 1;
  static constexpr int kTwofoldTileTokens = 2;
  /// So many tokens' accumulators leave room for decoding weights on the way.
  static constexpr int kFewTokens = 1;
  /// Independent sums that hide the latency of a multiply-add or dot product (probes).
  static constexpr int kProbeSums = 4;
  /// Queries that attention takes at a time.
  static constexpr int kQueryTile = 1;
  /// Accumulators of attention: as many as hide the latency of the multiply-add and leave registers.
  static constexpr int kAccumulators = 1;
  /// What dot_i8 wants added to each weight byte (modulo 256) if some may be negative.
  static constexpr int kDotOffset = 0;

#define SOLI_LANES for (int i = 0; i < 16; ++i)
  static SOLI_INLINE F32 set1(float x) {
    F32 r;
    SOLI_LANES r.lane[i] = x;
    return r;
  }
  /// The number at p in all lanes. Stays a load of its own: as the memory operand of a multiply-add it would
  /// be slower.
  static SOLI_INLINE F32 broadcast(const float* p) { return set1(*p); }
  static SOLI_INLINE F32 load(const void* p) {
    F32 r;
    std::memcpy(&r, p, sizeof r);
    return r;
  }
  static SOLI_INLINE void store(void* p, F32 a) { std::memcpy(p, &a, sizeof a); }
  static SOLI_INLINE F32 add(F32 a, F32 b) {
    SOLI_LANES a.lane[i] += b.lane[i];
    return a;
  }
  static SOLI_INLINE F32 sub(F32 a, F32 b) {
    SOLI_LANES a.lane[i] -= b.lane[i];
    return a;
  }
  static SOLI_INLINE F32 mul(F32 a, F32 b) {
    SOLI_LANES a.lane[i] *= b.lane[i];
    return a;
  }
  static SOLI_INLINE F32 div(F32 a, F32 b) {
    SOLI_LANES a.lane[i] /= b.lane[i];
    return a;
  }
  /// a * b + c, rounded once.
  static SOLI_INLINE F32 fma(F32 a, F32 b, F32 c) {
    SOLI_LANES c.lane[i] = __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]);
    return c;
  }
  /// The second operand where one is NaN.
  static SOLI_INLINE F32 max(F32 a, F32 b) {
    SOLI_LANES a.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
  }
  static SOLI_INLINE F32 min(F32 a, F32 b) {
    SOLI_LANES a.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i];
    return a;
  }
  static SOLI_INLINE F32 abs(F32 a) {
    SOLI_LANES a.lane[i] = __builtin_fabsf(a.lane[i]);
    return a;
  }
  /// Sum of the lanes, in the order of the tree: 8 + 8, 4 + 4, 2 + 2, 1 + 1.
  static SOLI_INLINE float reduce_add(F32 a) {
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) a.lane[i] += a.lane[i + half];
    }
    return a.lane[0];
  }
  static SOLI_INLINE float reduce_max(F32 a) {
    for (int half = 8; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) a.lane[i] = a.lane[i] > a.lane[i + half] ? a.lane[i] : a.lane[i + half];
    }
    return a.lane[0];
  }

  static SOLI_INLINE I32 set1_i(int32_t x) {
    I32 r;
    SOLI_LANES r.lane[i] = x;
    return r;
  }
  /// The four bytes at p in all lanes. Like broadcast().
  static SOLI_INLINE I32 broadcast_i(const void* p) {
    int32_t four;
    std::memcpy(&four, p, sizeof four);
    return set1_i(four);
  }
  static SOLI_INLINE void store_i(void* p, I32 a) { std::memcpy(p, &a, sizeof a); }
  static SOLI_INLINE I32 load_i(const void* p) {
    I32 r;
    std::memcpy(&r, p, sizeof r);
    return r;
  }
  /// Sixteen unsigned 16-bit numbers.
  static SOLI_INLINE I32 load_u16(const void* p) {
    uint16_t narrow[16];
    std::memcpy(narrow, p, sizeof narrow);
    I32 r;
    SOLI_LANES r.lane[i] = narrow[i];
    return r;
  }
  /// Sixteen unsigned bytes.
  static SOLI_INLINE I32 load_u8(const void* p) {
    uint8_t narrow[16];
    std::memcpy(narrow, p, sizeof narrow);
    I32 r;
    SOLI_LANES r.lane[i] = narrow[i];
    return r;
  }
  /// Replaces each byte of `indices`, all in [0, 15], by its entry of a table of 16.
  static SOLI_INLINE I32 lookup(const int8_t* table, I32 indices) {
    uint8_t bytes[64];
    std::memcpy(bytes, &indices, sizeof bytes);
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(table[b]);
    std::memcpy(&indices, bytes, sizeof bytes);
    return indices;
  }
  /// Replaces each lane by the entry of a table of 16 that its low four bits name.
  static SOLI_INLINE I32 lookup_i(const int32_t* table, I32 indices) {
    SOLI_LANES indices.lane[i] = table[indices.lane[i] & 15];
    return indices;
  }
  /// Replaces each lane, not negative, by that entry of a table of dwords.
  static SOLI_INLINE I32 gather(const void* table, I32 indices) {
    SOLI_LANES std::memcpy(&indices.lane[i], static_cast<const std::byte*>(table) + 4 * indices.lane[i], 4);
    return indices;
  }
  /// Sixteen values in [-128, 127] as bytes.
  static SOLI_INLINE void store_i8(int8_t* p, I32 a) { SOLI_LANES p[i] = static_cast<int8_t>(a.lane[i]); }
  static SOLI_INLINE I32 add_i(I32 a, I32 b) {
    SOLI_LANES a.lane[i] += b.lane[i];
    return a;
  }
  static SOLI_INLINE I32 sub_i(I32 a, I32 b) {
    SOLI_LANES a.lane[i] -= b.lane[i];
    return a;
  }
  static SOLI_INLINE I32 and_i(I32 a, I32 b) {
    SOLI_LANES a.lane[i] &= b.lane[i];
    return a;
  }
  static SOLI_INLINE I32 or_i(I32 a, I32 b) {
    SOLI_LANES a.lane[i] |= b.lane[i];
    return a;
  }
  static SOLI_INLINE I32 xor_i(I32 a, I32 b) {
    SOLI_LANES a.lane[i] ^= b.lane[i];
    return a;
  }
  static SOLI_INLINE I32 shift_left(I32 a, int n) {
    SOLI_LANES a.lane[i] = static_cast<int32_t>(static_cast<uint32_t>(a.lane[i]) << n);
    return a;
  }
  /// Keeps the sign.
  static SOLI_INLINE I32 shift_right(I32 a, int n) {
    SOLI_LANES a.lane[i] >>= n;
    return a;
  }
  static SOLI_INLINE I32 mul_i(I32 a, I32 b) {
    SOLI_LANES a.lane[i] *= b.lane[i];
    return a;
  }
  static SOLI_INLINE int32_t reduce_add_i(I32 a) {
    int32_t sum = 0;
    SOLI_LANES sum += a.lane[i];
    return sum;
  }
  /// acc + the four products of the signed bytes of weights (+ kDotOffset) and activations in each lane,
  /// exactly. Activations are in [-127, 127].
  static SOLI_INLINE I32 dot_i8(I32 acc, I32 weights, I32 activations) {
    int8_t w[64];
    int8_t x[64];
    std::memcpy(w, &weights, sizeof w);
    std::memcpy(x, &activations, sizeof x);
    SOLI_LANES {
      for (int j = 4 * i; j < 4 * i + 4; ++j) acc.lane[i] += w[j] * x[j];
    }
    return acc;
  }
  /// The same for unsigned bytes of weights up to 127.
  static SOLI_INLINE I32 dot_u7(I32 acc, I32 weights, I32 activations) {
    return dot_i8(acc, weights, activations);
  }
  /// acc + the two products of signed 16-bit numbers in each lane, exactly.
  static SOLI_INLINE I32 dot_i16(I32 acc, I32 a, I32 b) {
    SOLI_LANES {
      acc.lane[i] += static_cast<int16_t>(a.lane[i]) * static_cast<int16_t>(b.lane[i]);
      acc.lane[i] += (a.lane[i] >> 16) * (b.lane[i] >> 16);
    }
    return acc;
  }
  /// acc + the two products of bfloat16 numbers in each lane: fma with the high ones, then with the low ones.
  /// Denormal operands and results count as 0 (Intel SDM, VDPBF16PS).
  static SOLI_INLINE F32 dot_bf16(F32 acc, I32 a, I32 b) {
    SOLI_LANES {
      const float high =
          __builtin_fmaf(bf16_operand(a.lane[i]), bf16_operand(b.lane[i]), without_denormal(acc.lane[i]));
      acc.lane[i] = without_denormal(__builtin_fmaf(
          bf16_operand(low_half(a.lane[i])), bf16_operand(low_half(b.lane[i])), without_denormal(high)));
    }
    return acc;
  }

  static SOLI_INLINE F32 to_f32(I32 a) {
    F32 r;
    SOLI_LANES r.lane[i] = static_cast<float>(a.lane[i]);
    return r;
  }
  /// Nearest, ties to even; the smallest integer for NaN and for what does not fit.
  static SOLI_INLINE I32 to_i32(F32 a) {
    I32 r;
    SOLI_LANES {
      const bool fits = a.lane[i] >= -0x1p31F && a.lane[i] < 0x1p31F;
      r.lane[i] = fits ? static_cast<int32_t>(__builtin_rintf(a.lane[i])) : INT32_MIN;
    }
    return r;
  }
  static SOLI_INLINE F32 as_f32(I32 a) {
    F32 r;
    std::memcpy(&r, &a, sizeof r);
    return r;
  }
  static SOLI_INLINE F32 load_f16(const void* p) {
    uint16_t narrow[16];
    std::memcpy(narrow, p, sizeof narrow);
    F32 r;
    SOLI_LANES r.lane[i] = float_of_half(narrow[i]);
    return r;
  }
  /// The binary16 in the low half of each lane; the high half is zero.
  static SOLI_INLINE F32 f32_of_f16(I32 a) {
    F32 r;
    SOLI_LANES r.lane[i] = float_of_half(static_cast<uint16_t>(a.lane[i]));
    return r;
  }
  static SOLI_INLINE void store_f16(void* p, F32 a) {
    uint16_t narrow[16];
    SOLI_LANES narrow[i] = half_of_float(a.lane[i]);
    std::memcpy(p, narrow, sizeof narrow);
  }

 private:
  static SOLI_INLINE float without_denormal(float x) {
    return __builtin_fabsf(x) < 0x1p-126F ? __builtin_copysignf(0.0F, x) : x;
  }
  static SOLI_INLINE int32_t low_half(int32_t bits) {
    return static_cast<int32_t>(static_cast<uint32_t>(bits) << 16);
  }
  /// The bfloat16 in the high half of `bits`.
  static SOLI_INLINE float bf16_operand(int32_t bits) {
    return without_denormal(float_of(static_cast<uint32_t>(bits) & 0xffff0000U));
  }
#undef SOLI_LANES
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
