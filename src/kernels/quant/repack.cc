#include "kernels/quant/repack.h"

#include <cstring>

#include "kernels/kernel_table.h"

namespace soli::kernels {
namespace {

/// Copies between row `lane`'s block and the packed block, in the direction that `to_packed` says.
template <int kGrain, bool kToPacked>
void move_field(std::byte* block, std::byte* packed, int lane, int64_t bytes) {
  for (int64_t i = 0; i < bytes / kGrain; ++i) {
    std::byte* unit = packed + i * kStripRows * kGrain + lane * kGrain;
    if constexpr (kToPacked) {
      std::memcpy(unit, block + i * kGrain, kGrain);
    } else {
      std::memcpy(block + i * kGrain, unit, kGrain);
    }
  }
}

template <bool kToPacked>
void move_block(const PackedLayout& layout, std::byte* block, std::byte* packed, int lane) {
  for (int f = 0; f < layout.n_fields; ++f) {
    const PackedField& field = layout.fields[f];
    if (field.grain == 4) move_field<4, kToPacked>(block, packed, lane, field.bytes);
    if (field.grain == 2) move_field<2, kToPacked>(block, packed, lane, field.bytes);
    if (field.grain == 1) move_field<1, kToPacked>(block, packed, lane, field.bytes);
    block += field.bytes;
    packed += field.bytes * kStripRows;
  }
}

}  // namespace

void pack_strip(const PackedLayout& layout, std::byte* strip, int64_t n_blocks, std::byte* scratch) {
  const int64_t row_bytes = n_blocks * layout.block_bytes;
  for (int64_t b = 0; b < n_blocks; ++b) {
    for (int lane = 0; lane < kStripRows; ++lane) {
      move_block<true>(layout, strip + lane * row_bytes + b * layout.block_bytes,
                       scratch + b * layout.block_bytes * kStripRows, lane);
    }
  }
  std::memcpy(strip, scratch, static_cast<size_t>(row_bytes * kStripRows));
}

void unpack_block(const PackedLayout& layout, const std::byte* packed, int lane, std::byte* block) {
  move_block<false>(layout, block, const_cast<std::byte*>(packed), lane);
}

}  // namespace soli::kernels
