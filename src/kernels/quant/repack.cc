#include "kernels/quant/repack.h"

#include <emmintrin.h>

#include <cstring>

#include "kernels/kernel_table.h"

namespace soli::kernels {
namespace {

constexpr int kVectorBytes = 16;

template <int kGrain>
__m128i interleave_low(__m128i a, __m128i b) {
  if constexpr (kGrain == 4) return _mm_unpacklo_epi32(a, b);
  if constexpr (kGrain == 2) return _mm_unpacklo_epi16(a, b);
  if constexpr (kGrain == 1) return _mm_unpacklo_epi8(a, b);
}

template <int kGrain>
__m128i interleave_high(__m128i a, __m128i b) {
  if constexpr (kGrain == 4) return _mm_unpackhi_epi32(a, b);
  if constexpr (kGrain == 2) return _mm_unpackhi_epi16(a, b);
  if constexpr (kGrain == 1) return _mm_unpackhi_epi8(a, b);
}

/// Transposes n x n units, n = 16 / kGrain to a vector: from rows at `in` to rows at `out`, strides in bytes.
/// Interleaving the first half of the vectors with the second, log2 n times over, is a transposition.
template <int kGrain>
void transpose_square(const std::byte* in, int64_t in_stride, std::byte* out, int64_t out_stride) {
  constexpr int n = kVectorBytes / kGrain;
  __m128i from[n];
  __m128i to[n];
  for (int i = 0; i < n; ++i) from[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i * in_stride));
  for (int step = 1; step < n; step *= 2) {
    for (int i = 0; i < n / 2; ++i) {
      to[2 * i] = interleave_low<kGrain>(from[i], from[i + n / 2]);
      to[2 * i + 1] = interleave_high<kGrain>(from[i], from[i + n / 2]);
    }
    for (int i = 0; i < n; ++i) from[i] = to[i];
  }
  for (int i = 0; i < n; ++i) _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i * out_stride), from[i]);
}

/// Packs one field of one block of 16 rows.
template <int kGrain>
void pack_field(const std::byte* rows, int64_t row_bytes, int64_t bytes, std::byte* packed) {
  int64_t i = 0;
  for (; i + kVectorBytes <= bytes; i += kVectorBytes) {
    for (int lane = 0; lane < kStripRows; lane += kVectorBytes / kGrain) {
      transpose_square<kGrain>(rows + lane * row_bytes + i, row_bytes,
                               packed + i * kStripRows + lane * kGrain, kStripRows * kGrain);
    }
  }
  for (; i < bytes; i += kGrain) {
    for (int lane = 0; lane < kStripRows; ++lane) {
      std::memcpy(packed + i * kStripRows + lane * kGrain, rows + lane * row_bytes + i, kGrain);
    }
  }
}

/// Copies row `lane`'s units of one field out of a packed block.
template <int kGrain>
void unpack_field(const std::byte* packed, int lane, int64_t bytes, std::byte* out) {
  for (int64_t i = 0; i < bytes; i += kGrain) {
    std::memcpy(out + i, packed + i * kStripRows + lane * kGrain, kGrain);
  }
}

}  // namespace

void pack_strip(const PackedLayout& layout, const std::byte* rows, int64_t n_blocks, std::byte* strip) {
  const int64_t row_bytes = n_blocks * layout.block_bytes;
  for (int64_t b = 0; b < n_blocks; ++b) {
    for (int f = 0; f < layout.n_fields; ++f) {
      const PackedField& field = layout.fields[f];
      if (field.grain == 4) pack_field<4>(rows, row_bytes, field.bytes, strip);
      if (field.grain == 2) pack_field<2>(rows, row_bytes, field.bytes, strip);
      if (field.grain == 1) pack_field<1>(rows, row_bytes, field.bytes, strip);
      rows += field.bytes;
      strip += field.bytes * kStripRows;
    }
  }
}

void unpack_block(const PackedLayout& layout, const std::byte* packed, int lane, std::byte* block) {
  for (int f = 0; f < layout.n_fields; ++f) {
    const PackedField& field = layout.fields[f];
    if (field.grain == 4) unpack_field<4>(packed, lane, field.bytes, block);
    if (field.grain == 2) unpack_field<2>(packed, lane, field.bytes, block);
    if (field.grain == 1) unpack_field<1>(packed, lane, field.bytes, block);
    packed += field.bytes * kStripRows;
    block += field.bytes;
  }
}

}  // namespace soli::kernels
