#pragma once

// The x16 layout. A weight type lists the fields of its GGUF block; each field of 16 rows' blocks is
// transposed at its grain (4 bytes, or 2 or 1 for smaller numbers), so that one vector load brings the same
// bytes of 16 rows. Nothing is added or lost: a strip has the size of its 16 rows.

#include <cstddef>
#include <cstdint>

namespace soli::kernels {

/// `bytes` of a block, moved in units of `grain` bytes.
struct PackedField {
  int64_t bytes;
  int grain;
};

/// The fields of a block in file order; their bytes add up to block_bytes.
struct PackedLayout {
  const PackedField* fields;
  int n_fields;
  int64_t block_bytes;
};

/// Packs the 16 rows of n_blocks blocks that stand one after the other at `rows` into the [n_blocks] packed
/// blocks of `strip`. The two have the same size and do not overlap; neither need be aligned.
void pack_strip(const PackedLayout& layout, const std::byte* rows, int64_t n_blocks, std::byte* strip);

/// Copies row `lane`'s block out of a packed block of 16 rows.
void unpack_block(const PackedLayout& layout, const std::byte* packed, int lane, std::byte* block);

}  // namespace soli::kernels
