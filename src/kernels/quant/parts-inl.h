// What weight types are made of. A part is 32 consecutive weights of 16 rows, unpacked from a packed block to
// bytes: bytes[i] holds elements 4i .. 4i + 3 of every row. The kinds of part below say what a byte is worth
// (value, exact as the oracle) and how integer dots with 8-bit activations become a sum (apply, the canonical
// integer arithmetic).

namespace soli::kernels::SOLI_ISA_NAMESPACE {

/// One part of 32 activations of one token.
struct Q8Part {
  float scale;
  int32_t sum;
};

/// Bits [shift, shift + n) of every lane.
SOLI_INLINE I32 bits_at(I32 a, int shift, int n) {
  return S::and_i(S::shift_right(a, shift), S::set1_i((1 << n) - 1));
}

/// Byte i of every lane, with its sign.
SOLI_INLINE I32 signed_byte(I32 a, int i) { return S::shift_right(S::shift_left(a, 24 - 8 * i), 24); }

/// Signed bytes as dot_i8 wants them: + 128, modulo 256, where weights are unsigned.
SOLI_INLINE I32 dot_bytes(I32 signed_bytes) {
  if constexpr (S::kDotOffset == 0) return signed_bytes;
  return S::xor_i(signed_bytes, S::set1_i(static_cast<int32_t>(0x80808080U)));
}

/// The exact dot of a part, starting from `start` in every lane.
SOLI_INLINE I32 dot_part(const I32* bytes, const I32* activations, int32_t start) {
  I32 dot = S::set1_i(start);
  SOLI_UNROLL
  for (int i = 0; i < 8; ++i) dot = S::dot_i8(dot, bytes[i], activations[i]);
  return dot;
}

/// 16 bytes per row of nibbles: the low ones are elements 0..15, the high ones 16..31.
SOLI_INLINE void unpack_nibbles(const std::byte* packed, I32* bytes) {
  const I32 mask = S::set1_i(0x0f0f0f0f);
  SOLI_UNROLL
  for (int i = 0; i < 4; ++i) {
    const I32 both = S::load_i(packed + i * 64);
    bytes[i] = S::and_i(both, mask);
    bytes[i + 4] = S::and_i(S::shift_right(both, 4), mask);
  }
}

/// The same in plain C++: element i of 32.
SOLI_INLINE int nibble_at(const uint8_t* q, int i) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }
SOLI_INLINE void set_nibble(uint8_t* q, int i, int nibble) {
  q[i % 16] = static_cast<uint8_t>(i < 16 ? nibble : q[i % 16] | nibble << 4);  // the low ones are set first
}

/// Sets bit 4 of the bytes from 32 bits per row, bit i for element i.
SOLI_INLINE void add_fifth_bits(I32 high, I32* bytes) {
  SOLI_UNROLL
  for (int i = 0; i < 8; ++i) {
    // Bit j moves to 8 j: of the four copies, shifted by 0, 7, 14 and 21, one puts it there.
    const I32 four = bits_at(high, 4 * i, 4);
    I32 spread = S::or_i(four, S::shift_left(four, 7));
    spread = S::or_i(spread, S::shift_left(spread, 14));
    bytes[i] = S::or_i(bytes[i], S::shift_left(S::and_i(spread, S::set1_i(0x01010101)), 4));
  }
}

/// scale * (q - kOffset). sum = fma(float(dot), scale * d_activation, sum); the dot is exact in 32 bits and,
/// below 2^24, in f32, and the product of scales is rounded once.
template <int kOffset>
struct OffsetPart {
  I32 bytes[8];
  F32 scale;

  SOLI_INLINE F32 value(int i, int j) const {
    return S::mul(scale, S::to_f32(S::sub_i(bits_at(bytes[i], 8 * j, 8), S::set1_i(kOffset))));
  }
  SOLI_INLINE F32 apply(const I32* activations, const Q8Part& x, F32 sum) const {
    const I32 dot = dot_part(bytes, activations, -kOffset * x.sum);
    return S::fma(S::to_f32(dot), S::mul(scale, S::set1(x.scale)), sum);
  }
};

/// The same for signed bytes, which are kept as dot_bytes makes them.
struct SignedPart {
  I32 bytes[8];
  F32 scale;

  SOLI_INLINE F32 value(int i, int j) const {
    return S::mul(scale, S::to_f32(signed_byte(dot_bytes(bytes[i]), j)));
  }
  SOLI_INLINE F32 apply(const I32* activations, const Q8Part& x, F32 sum) const {
    const I32 dot = dot_part(bytes, activations, -S::kDotOffset * x.sum);
    return S::fma(S::to_f32(dot), S::mul(scale, S::set1(x.scale)), sum);
  }
};

/// scale * q - minimum. In this order:
///   sum = fma(float(dot of q and x), scale * d_activation, sum)
///   sum = fma(minimum, -(d_activation * float(sum of x)), sum)
struct AffinePart {
  I32 bytes[8];
  F32 scale;
  F32 minimum;

  SOLI_INLINE F32 value(int i, int j) const {
    return S::sub(S::mul(scale, S::to_f32(bits_at(bytes[i], 8 * j, 8))), minimum);
  }
  SOLI_INLINE F32 apply(const I32* activations, const Q8Part& x, F32 sum) const {
    sum = S::fma(S::to_f32(dot_part(bytes, activations, 0)), S::mul(scale, S::set1(x.scale)), sum);
    return S::fma(minimum, S::set1(-(x.scale * static_cast<float>(x.sum))), sum);
  }
};

/// scales[h] * (q - kOffset) - minima[h], where h is the half of 16 elements; without kMinima there are none.
/// In order:
///   sum = fma(float(exact dot of q_0 - kOffset), scales[0] * d_activation, sum), then the same with half 1,
///   sum = fma(minima[0], -d_activation * float(sum of x_0), sum), then the same with half 1
template <int kOffset, bool kMinima>
struct HalvesPart {
  I32 bytes[8];
  F32 scales[2];
  F32 minima[2];

  SOLI_INLINE F32 value(int i, int j) const {
    const F32 q = S::to_f32(S::sub_i(bits_at(bytes[i], 8 * j, 8), S::set1_i(kOffset)));
    if constexpr (kMinima) return S::sub(S::mul(scales[i / 4], q), minima[i / 4]);
    return S::mul(scales[i / 4], q);
  }
  SOLI_INLINE F32 apply(const I32* activations, const Q8Part& x, F32 sum) const {
    I32 dots[2] = {S::set1_i(0), S::set1_i(0)};
    I32 sums[2] = {S::set1_i(0), S::set1_i(0)};
    SOLI_UNROLL
    for (int i = 0; i < 4; ++i) {
      // The sum of the first 16 activations is a dot with ones; the second is what remains of the 32.
      sums[0] = S::dot_i8(sums[0], S::set1_i(0x01010101), activations[i]);
      dots[0] = S::dot_i8(dots[0], bytes[i], activations[i]);
      dots[1] = S::dot_i8(dots[1], bytes[i + 4], activations[i + 4]);
    }
    sums[1] = S::sub_i(S::set1_i(x.sum), sums[0]);
    const F32 d = S::set1(x.scale);
    SOLI_UNROLL
    for (int h = 0; h < 2; ++h) {
      const I32 dot = kOffset == 0 ? dots[h] : S::sub_i(dots[h], S::shift_left(sums[h], log2(kOffset)));
      sum = S::fma(S::to_f32(dot), S::mul(scales[h], d), sum);
    }
    if constexpr (!kMinima) return sum;
    SOLI_UNROLL
    for (int h = 0; h < 2; ++h) sum = S::fma(minima[h], S::mul(S::set1(-x.scale), S::to_f32(sums[h])), sum);
    return sum;
  }

 private:
  static constexpr int log2(int power) { return power <= 1 ? 0 : 1 + log2(power / 2); }
};

/// The exact values of a packed block: [block_elements][16].
template <typename Type>
inline void decode_block(const std::byte* packed, float* panel) {
  for (int part = 0; part < Type::kBlockElements / kQ8BlockElements; ++part) {
    const typename Type::Part weights(packed, part);
    SOLI_UNROLL
    for (int i = 0; i < 8; ++i) {
      SOLI_UNROLL
      for (int j = 0; j < 4; ++j) S::store(panel + (part * 32 + i * 4 + j) * kStripRows, weights.value(i, j));
    }
  }
}

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
