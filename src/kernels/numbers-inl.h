// What the integer numbers of weight types are, and how they reach the dot product: four consecutive numbers
// of a row are the four bytes of its lane.
//
// A type derives from one of the three kinds below and has bytes(): the dot-ready bytes of elements 4i ..
// 4i + 3. A kind says what must be taken off a byte to get the number (kByteOffset); the correction by the
// sum of the activations is exact, in integers.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

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

/// A weight is scale * (byte - kOffset); bytes are at most 127.
template <int kOffset>
struct OffsetNumbers {
  static constexpr bool kMinima = false;
  static constexpr int kByteOffset = kOffset;

  static SOLI_INLINE I32 dot(I32 acc, I32 bytes, I32 activations) {
    return S::dot_u7(acc, bytes, activations);
  }
  /// Number j of the four.
  static SOLI_INLINE I32 number(I32 bytes, int j) {
    return S::sub_i(bits_at(bytes, 8 * j, 8), S::set1_i(kOffset));
  }
};

/// A weight is scale * byte - minimum; bytes are at most 127.
struct AffineNumbers : OffsetNumbers<0> {
  static constexpr bool kMinima = true;
};

/// A weight is scale * number, with any signed byte; the bytes are what dot_bytes makes of them.
struct SignedNumbers {
  static constexpr bool kMinima = false;
  static constexpr int kByteOffset = S::kDotOffset;

  static SOLI_INLINE I32 dot(I32 acc, I32 bytes, I32 activations) {
    return S::dot_i8(acc, bytes, activations);
  }
  static SOLI_INLINE I32 number(I32 bytes, int j) { return signed_byte(dot_bytes(bytes), j); }
};

/// kFactor * a.
template <int kFactor>
SOLI_INLINE I32 multiply_by(I32 a) {
  constexpr bool kPowerOfTwo = (kFactor & (kFactor - 1)) == 0;
  if constexpr (kPowerOfTwo) return S::shift_left(a, __builtin_ctz(kFactor));
  return S::mul_i(a, S::set1_i(kFactor));
}

/// Dword i of 8 from 16 bytes per row of nibbles: the low ones are elements 0..15, the high ones 16..31.
SOLI_INLINE I32 nibbles(const std::byte* packed, int i) {
  return S::and_i(S::shift_right(S::load_i(packed + i % 4 * 64), i / 4 * 4), S::set1_i(0x0f0f0f0f));
}

/// The same in plain C++: element i of 32.
SOLI_INLINE int nibble_at(const uint8_t* q, int i) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }
SOLI_INLINE void set_nibble(uint8_t* q, int i, int nibble) {
  q[i % 16] = static_cast<uint8_t>(i < 16 ? nibble : q[i % 16] | nibble << 4);  // the low ones are set first
}

/// Dword i of 64 from 64 bytes per row of two-bit numbers: a half of 128 elements takes 32 bytes, and its
/// element e has the bit pair e / 32 of byte e % 32.
SOLI_INLINE I32 bit_pairs(const std::byte* packed, int i) {
  const I32 fours = S::load_i(packed + (i / 32 * 8 + i % 8) * 64);
  return S::and_i(S::shift_right(fours, i % 32 / 8 * 2), S::set1_i(0x03030303));
}

/// The same in plain C++: element i of 256.
SOLI_INLINE int bit_pair_at(const uint8_t* q, int i) {
  return q[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}
/// Where it was zero.
SOLI_INLINE void set_bit_pair(uint8_t* q, int i, int pair) {
  q[i / 128 * 32 + i % 32] |= static_cast<uint8_t>(pair << i % 128 / 32 * 2);
}

/// The lowest bits of the bytes of dword i, from 32 bits per row, bit e for element e.
SOLI_INLINE I32 spread_bits(I32 bits, int i) {
  // Bit j moves to 8 j: of the four copies, shifted by 0, 7, 14 and 21, one puts it there.
  const I32 four = bits_at(bits, 4 * i, 4);
  I32 spread = S::or_i(four, S::shift_left(four, 7));
  spread = S::or_i(spread, S::shift_left(spread, 14));
  return S::and_i(spread, S::set1_i(0x01010101));
}

/// The same as bit 4.
SOLI_INLINE I32 fifth_bits(I32 high, int i) { return S::shift_left(spread_bits(high, i), 4); }

/// Eight consecutive elements of a row, as two dwords of bytes.
struct Eight {
  I32 low, high;
};

/// So many tokens' accumulators leave room for decoding on the way. Where that is dear, as with kSlowBytes,
/// it is done once for all tokens instead, as soon as there are three.
template <typename Type>
constexpr int few_tokens_of() {
  if constexpr (requires { Type::kSlowBytes; })
    return S::kFewTokens < 2 ? S::kFewTokens : 2;
  else
    return S::kFewTokens;
}

/// The dwords of a packed block of a type, in ascending order. A type whose numbers come eight at a time has
/// eight(packed, i) in the place of bytes(), which is then asked once for two dwords.
template <typename Type>
struct Dwords {
  const std::byte* packed;
  I32 second = S::set1_i(0);

  SOLI_INLINE I32 next(int i) {
    if constexpr (requires { Type::eight(packed, i); }) {
      if (i % 2 != 0) return second;
      const Eight eight = Type::eight(packed, i / 2);
      second = eight.high;
      return eight.low;
    } else {
      return Type::bytes(packed, i);
    }
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
