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

  /// Tokens of a tile of f32 matmul: as many accumulators as hide the latency of the multiply-add.
  static constexpr int kTokenTile = 1;
  /// Tokens of a tile of integer matmul.
  static constexpr int kTokenTileQ8 = 1;
  /// What dot_i8 wants added to each weight byte (modulo 256) if some may be negative.
  static constexpr int kDotOffset = 0;

#define SOLI_LANES for (int i = 0; i < 16; ++i)
  static SOLI_INLINE F32 set1(float x) {
    F32 r;
    SOLI_LANES r.lane[i] = x;
    return r;
  }
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
  static SOLI_INLINE void store_f16(void* p, F32 a) {
    uint16_t narrow[16];
    SOLI_LANES narrow[i] = half_of_float(a.lane[i]);
    std::memcpy(p, narrow, sizeof narrow);
  }
#undef SOLI_LANES
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
