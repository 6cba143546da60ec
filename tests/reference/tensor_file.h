#pragma once

// A GGUF file as the reference sees it: keys by suffix, F32 tensors by name. Whatever is wrong with the file
// aborts: the tests made it, or it is a golden case.

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "format/gguf.h"

namespace soli::reference {

using Vector = std::vector<double>;

/// A matrix, or some rows of one: [rows][cols], borrowed from a TensorFile.
struct Matrix {
  const float* values = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;

  double at(int64_t row, int64_t col) const { return static_cast<double>(values[row * cols + col]); }
  Matrix rows_from(int64_t first, int64_t n) const { return {values + first * cols, n, cols}; }
};

class TensorFile {
 public:
  explicit TensorFile(const std::string& path);

  std::string architecture() const;
  /// Keys "<architecture>.<suffix>".
  bool has_key(std::string_view suffix) const;
  int64_t integer(std::string_view suffix) const;
  int64_t integer_or(std::string_view suffix, int64_t fallback) const;
  double number_or(std::string_view suffix, double fallback) const;
  bool flag_or(std::string_view suffix, bool fallback) const;
  std::string text_or(std::string_view suffix, std::string_view fallback) const;

  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  /// All elements; empty where there is no such tensor.
  Vector vector_or_none(const std::string& name) const;
  Vector vector(const std::string& name) const;
  /// Matrix `slice` of a tensor [cols, rows, slices]; a vector is a matrix of one row.
  Matrix matrix(const std::string& name, int64_t slice = 0) const;

 private:
  struct Tensor {
    std::array<int64_t, 4> dims;
    std::vector<float> values;
  };
  std::string key(std::string_view suffix) const;

  GgufMetadata metadata_;
  std::map<std::string, Tensor> tensors_;
};

/// "blk.3.attn_q.weight" of (3, "attn_q.weight").
std::string in_layer(int64_t layer, const std::string& name);

}  // namespace soli::reference
