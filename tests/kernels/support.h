#pragma once

// What the tests of the kernels and ops floors share: random data, packed matrices, comparisons by bits.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"

namespace soli::test {

/// Sums of uniform numbers: roughly normal with deviation 1, like activations.
inline std::vector<float> random_floats(uint64_t seed, int64_t n, float scale = 1.0F) {
  Rng rng(seed);
  std::vector<float> x(static_cast<size_t>(n));
  for (float& v : x) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += rng.next_unit();
    v = static_cast<float>(sum) * scale;
  }
  return x;
}

/// A matrix of one weight type in both layouts, with its exact values.
struct TestMatrix {
  const kernels::WeightKernels* type;
  int64_t rows;
  int64_t cols;
  std::vector<std::byte> gguf;    // [rows padded to 16][row_bytes], zero rows at the end
  std::vector<std::byte> packed;  // [strips][strip_bytes]
  std::vector<float> values;      // [rows][cols]

  int64_t n_strips() const { return (rows + 15) / 16; }
};

/// Makes `packed` from `gguf`.
inline void pack(TestMatrix& m) {
  m.packed.resize(m.gguf.size());
  for (int64_t s = 0; s < m.n_strips(); ++s) {
    const int64_t offset = s * m.type->strip_bytes(m.cols);
    m.type->pack_strip(m.gguf.data() + offset, m.cols, m.packed.data() + offset);
  }
}

inline TestMatrix random_matrix(const kernels::WeightKernels& type, int64_t rows, int64_t cols,
                                uint64_t seed) {
  TestMatrix m{&type, rows, cols, {}, {}, {}};
  const std::vector<float> source = random_floats(seed, rows * cols, 0.05F);
  m.gguf.resize(static_cast<size_t>(m.n_strips() * type.strip_bytes(cols)));
  m.values.resize(source.size());
  for (int64_t r = 0; r < rows; ++r) {
    std::byte* row = m.gguf.data() + r * type.row_bytes(cols);
    type.quantize_row(source.data() + r * cols, cols, row);
    type.dequantize_row(row, cols, m.values.data() + r * cols);
  }
  pack(m);
  return m;
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <typename T>
std::vector<T> read_golden(const std::string& name) {
  const std::string path = std::string(SOLI_TEST_DATA) + "/golden/" + name;
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  std::vector<T> data;
  if (file == nullptr) return data;
  std::fseek(file.get(), 0, SEEK_END);
  data.resize(static_cast<size_t>(std::ftell(file.get())) / sizeof(T));
  std::rewind(file.get());
  if (std::fread(data.data(), sizeof(T), data.size(), file.get()) != data.size()) data.clear();
  return data;
}

inline std::vector<const kernels::KernelTable*> all_tables() {
  std::vector<const kernels::KernelTable*> tables;
  for (std::string_view isa : kernels::available_isas())
    tables.push_back(kernels::select_kernels(isa).value());
  return tables;
}

inline std::string isa_name(const testing::TestParamInfo<const kernels::KernelTable*>& info) {
  return std::string(info.param->isa);
}

}  // namespace soli::test
