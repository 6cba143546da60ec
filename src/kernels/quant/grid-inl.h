// What the IQ types with grids share: an index names the numbers of eight or four elements (grids.h), and
// a fourth bit beside each number, mostly its sign, makes it one of 16 values.
//
// A number reaches the dot product as the byte that a table of 16 has for it: the value + an offset, where
// bit 3 says that the value is negative, or which of two shifts it has.

namespace soli::kernels::SOLI_ISA_NAMESPACE {

/// Bytes for the values and, with bit 3, their negatives.
struct GridBytes {
  int8_t table[16];
};
template <int kLevels>
constexpr GridBytes signed_bytes(const int8_t (&values)[kLevels], int offset) {
  GridBytes bytes{};
  for (int l = 0; l < kLevels; ++l) {
    bytes.table[l] = static_cast<int8_t>(offset + values[l]);
    bytes.table[8 + l] = static_cast<int8_t>(offset - values[l]);
  }
  return bytes;
}

/// Bit j of the index as bit 3 of byte j.
struct SpreadNibbles {
  int32_t table[16];
};
constexpr SpreadNibbles spread_nibbles() {
  SpreadNibbles spread{};
  for (int nibble = 0; nibble < 16; ++nibble) {
    for (int j = 0; j < 4; ++j) spread.table[nibble] |= (nibble >> j & 1) << (8 * j + 3);
  }
  return spread;
}
inline constexpr SpreadNibbles kSpreadNibbles = spread_nibbles();

/// Sign bits of eight elements, eight bits in each lane with anything above them.
SOLI_INLINE Eight spread_signs(I32 signs) {
  return {S::lookup_i(kSpreadNibbles.table, signs),
          S::lookup_i(kSpreadNibbles.table, S::shift_right(signs, 4))};
}

/// The parity of each nibble as bit 3.
inline constexpr int32_t kParities[16] = {0, 8, 8, 0, 8, 0, 0, 8, 8, 0, 0, 8, 0, 8, 8, 0};

/// Seven sign bits in each lane, with anything above them; the eighth makes the number of minus signs even.
SOLI_INLINE Eight spread_even_signs(I32 signs) {
  const I32 high = bits_at(signs, 4, 3);
  const I32 eighth = S::lookup_i(kParities, S::xor_i(signs, high));
  return {S::lookup_i(kSpreadNibbles.table, signs), S::lookup_i(kSpreadNibbles.table, S::or_i(high, eighth))};
}

/// The same in plain C++: all eight bits.
inline int even_signs(int seven) { return seven | (__builtin_parity(static_cast<unsigned>(seven)) << 7); }

/// Of a part of 32 elements, IQ2_XXS and IQ3_XXS: seven sign bits for each eight, and four bits of scale on
/// top.
struct SignsAndScale {
  uint8_t bytes[4];

  int signs(int eight) const { return even_signs(static_cast<int>(bits() >> eight * 7) & 127); }
  int scale() const { return static_cast<int>(bits() >> 28); }
  /// Where they were zero.
  void set_signs(int eight, int signs) { add(static_cast<uint32_t>(signs & 127) << eight * 7); }
  void set_scale(int scale) { add(static_cast<uint32_t>(scale) << 28); }

 private:
  uint32_t bits() const {
    uint32_t bits;
    __builtin_memcpy(&bits, bytes, sizeof bits);
    return bits;
  }
  void add(uint32_t more) {
    more |= bits();
    __builtin_memcpy(bytes, &more, sizeof more);
  }
};

/// The bytes of an entry of eight elements.
SOLI_INLINE Eight grid_of_8(const uint32_t* entries, const GridBytes& bytes, I32 index, Eight signs) {
  const I32 entry = S::gather(entries, index);
  const I32 mask = S::set1_i(0x03030303);
  return {S::lookup(bytes.table, S::or_i(S::and_i(entry, mask), signs.low)),
          S::lookup(bytes.table, S::or_i(S::and_i(S::shift_right(entry, 4), mask), signs.high))};
}

/// The bytes of two entries of four elements.
SOLI_INLINE Eight grids_of_4(const uint32_t* entries, const GridBytes& bytes, I32 first, I32 second,
                             Eight signs) {
  return {S::lookup(bytes.table, S::or_i(S::gather(entries, first), signs.low)),
          S::lookup(bytes.table, S::or_i(S::gather(entries, second), signs.high))};
}

/// 2 s + 1.
SOLI_INLINE I32 odd_scale(I32 s) { return S::add_i(S::add_i(s, s), S::set1_i(1)); }

/// Byte i of rows that stand in dwords.
SOLI_INLINE I32 byte_at(const std::byte* packed, int i) {
  return bits_at(S::load_i(packed + i / 4 * 64), i % 4 * 8, 8);
}

// The oracle of a type with a grid. Beside its numbers, such a type has
//   kFormat (grid_search.h) and kUnit, a power of two that weights count in: d * kUnit * scale * value
//   Block with d(), index(i), signs(g) of eight elements and scale(part), which is s of 2 s + 1; and, for a
//   block that was zero, set_d(), set_index(), set_signs() and set_scales() of all parts
//   value(number, signs, j): what a number of an entry stands for as element j of an eight
template <typename Type>
inline void dequantize_grid(const typename Type::Block& block, float* out) {
  constexpr GridFormat kFormat = Type::kFormat;
  const int elements = kFormat.grid->elements;
  for (int i = 0; i < 256; ++i) {
    const float scale = float_of_half(block.d()) * Type::kUnit *
                        static_cast<float>(2 * block.scale(i / kFormat.part_elements) + 1);
    const uint32_t entry = kFormat.grid->entries[block.index(i / elements)];
    out[i] = scale * Type::value(grid_number(entry, i % elements), block.signs(i / 8), i % 8);
  }
}

template <typename Type>
inline void quantize_grid(const float* in, typename Type::Block* block) {
  constexpr GridFormat kFormat = Type::kFormat;
  float fits[16];
  GridBlock grid;
  fit_scales(kFormat, in, fits, &grid);
  __builtin_memset(block, 0, sizeof *block);
  block->set_d(half_of_float(grid.d / Type::kUnit));
  grid.d = float_of_half(block->d()) * Type::kUnit;
  choose_entries(kFormat, in, fits, &grid);
  block->set_scales(grid.scales);
  for (int g = 0; g < 32; ++g) block->set_signs(g, grid.signs[g]);
  for (int i = 0; i < 256 / kFormat.grid->elements; ++i) block->set_index(i, grid.indices[i]);
}

/// A value or its negative.
SOLI_INLINE float signed_value(int value, int signs, int j) {
  return static_cast<float>((signs >> j & 1) != 0 ? -value : value);
}

/// What all of these types are.
template <int kOffset>
struct GridNumbers : OffsetNumbers<kOffset> {
  static constexpr bool kSlowBytes = true;
};

/// IQ2_XXS, IQ2_XS and IQ2_S: weights count in eighths of d.
struct Iq2Numbers : GridNumbers<64> {
  static constexpr int8_t kValues[3] = {8, 25, 43};
  static constexpr GridBytes kBytes = signed_bytes(kValues, 64);
  static constexpr float kUnit = 0.125F;
  static constexpr float kTypical = 22;

  static float value(int number, int signs, int j) { return signed_value(kValues[number], signs, j); }
};

/// IQ1_S and IQ1_M: -1, 0 and 1, each 1/8 more or, with the bit, less; all in eighths of d.
struct Iq1Numbers : GridNumbers<16> {
  static constexpr int8_t kValues[3] = {-8, 0, 8};
  static constexpr GridBytes kBytes = {{9, 17, 25, 0, 0, 0, 0, 0, 7, 15, 23, 0, 0, 0, 0, 0}};
  static constexpr float kUnit = 0.125F;
  static constexpr float kTypical = 6.5F;

  static float value(int number, int bit, int) {
    return static_cast<float>(kValues[number] + (bit != 0 ? -1 : 1));
  }
  /// The bit, 0 or 1 in each lane, beside all eight elements.
  static SOLI_INLINE Eight spread(I32 bit) {
    const I32 all = S::and_i(S::sub_i(S::set1_i(0), bit), S::set1_i(0x08080808));
    return {all, all};
  }
};

}  // namespace soli::kernels::SOLI_ISA_NAMESPACE
