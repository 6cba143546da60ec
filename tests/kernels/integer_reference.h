#pragma once

// The canonical integer arithmetic of every weight type, in plain C++ and from the bytes of the GGUF file: an
// oracle that shares no code with the kernels. Layouts: GGUF specification and ggml's ggml-common.h.

#include <cstdint>
#include <vector>

#include "kernels/support.h"

namespace soli::test {

/// One block of a row, as integers and its scales.
struct IntegerBlock {
  int n = 0;        // elements
  int n_parts = 1;  // parts with scales of their own
  int numbers[256] = {};
  int scales[16] = {};
  int minima[16] = {};  // of parts
  float d = 0;
  float minimum_factor = 0;  // what minima count in units of
  bool has_minima = false;
};

/// Decodes the block at `bytes`; fails the test for a type without integer arithmetic.
IntegerBlock decode_integers(uint32_t gguf_type, const std::byte* bytes);

/// The part of it for types with grids; false for others.
bool decode_grid(uint32_t gguf_type, const std::byte* bytes, IntegerBlock& b);

/// An activation row in 8 bit, of either form.
struct IntegerActivations {
  std::vector<int> values;    // [cols]
  std::vector<float> scales;  // [cols / scale_elements]
  int scale_elements = 32;
};

/// Row `row` of `m` times `x`, rounded as kernels/product_q8_of_*-inl.h state.
float integer_reference(const TestMatrix& m, int64_t row, const IntegerActivations& x);

}  // namespace soli::test
