#pragma once

// The grids of the IQ types. A grid lists the tuples of 8 or 4 numbers that a type may use, so that an index
// names a whole tuple; which ones is a constant of the format (ggml-common.h of ggml 0.25.1). Not in an ISA's
// namespace: included before any target pragma.

#include <cstdint>

namespace soli::kernels {

/// Where element j of an entry lies: in byte j % 4, the first four low and the others high.
constexpr int grid_shift(int j) { return j % 4 * 8 + j / 4 * 4; }
inline int grid_number(uint32_t entry, int j) { return static_cast<int>(entry >> grid_shift(j)) & 15; }

/// What kernels gather from. Entries are in ascending order of their codes (see Grid).
template <int kEntries, int kWords>
struct GridTable {
  uint32_t entries[kEntries];
  uint16_t n_before[kWords];
};

/// Some of the tuples of `elements` numbers in [0, levels). A tuple's code has its numbers as digits in base
/// `levels`, the first one lowest.
struct Grid {
  int elements;  // 8, of 3 levels, or 4, of 8
  int levels;
  const uint32_t* entries;
  const uint64_t* members;   // bit c % 64 of word c / 64: whether code c is an entry
  const uint16_t* n_before;  // for each word of `members`: entries with codes in the words before it

  /// The index of the entry with this code, or -1.
  int find(int code) const {
    const uint64_t word = members[code / 64];
    const uint64_t bit = uint64_t{1} << code % 64;
    return (word & bit) == 0 ? -1 : n_before[code / 64] + __builtin_popcountll(word & (bit - 1));
  }
};

inline constexpr int kThreesWords = (6561 + 63) / 64;  // of 3^8 bits
inline constexpr int kEightsWords = 4096 / 64;         // of 8^4 bits

extern const GridTable<256, kThreesWords> kIq2XxsTable;
extern const GridTable<512, kThreesWords> kIq2XsTable;
extern const GridTable<1024, kThreesWords> kIq2STable;
extern const GridTable<2048, kThreesWords> kIq1Table;
extern const GridTable<256, kEightsWords> kIq3XxsTable;
extern const GridTable<512, kEightsWords> kIq3STable;

extern const Grid kIq2XxsGrid;
extern const Grid kIq2XsGrid;
extern const Grid kIq2SGrid;
extern const Grid kIq1Grid;
extern const Grid kIq3XxsGrid;
extern const Grid kIq3SGrid;

}  // namespace soli::kernels
