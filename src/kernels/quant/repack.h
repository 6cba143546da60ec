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

/// Sixteen rows of n_blocks blocks, one row after the other at `strip`, become [n_blocks] packed blocks in
/// place. `scratch` has room for the strip.
void pack_strip(const PackedLayout& layout, std::byte* strip, int64_t n_blocks, std::byte* scratch);

/// Copies row `lane`'s block out of a packed block of 16 rows.
void unpack_block(const PackedLayout& layout, const std::byte* packed, int lane, std::byte* block);

}  // namespace soli::kernels
