#include "reference/tensor_file.h"

#include <span>

#include "base/check.h"

namespace soli::reference {
namespace {

template <typename T>
T must(Result<T> result) {
  SOLI_CHECK(result.has_value(), "{}", result.error().message);
  return std::move(result).value();
}

}  // namespace

TensorFile::TensorFile(const std::string& path) {
  const GgufFile file = must(GgufFile::open(path));
  metadata_ = file.metadata();
  for (const GgufTensor& tensor : file.tensors()) {
    SOLI_CHECK(tensor.type == kGgmlF32, "{}: the reference reads F32 only", tensor.name);
    Tensor& kept = tensors_[tensor.name];
    kept.dims = tensor.dims;
    kept.values.resize(static_cast<size_t>(tensor.elements()));
    const Status read =
        file.shard(tensor.shard).read(tensor.offset, std::as_writable_bytes(std::span(kept.values)));
    SOLI_CHECK(read.has_value(), "{}", read.error().message);
  }
}

std::string TensorFile::key(std::string_view suffix) const {
  return architecture() + "." + std::string(suffix);
}

std::string TensorFile::architecture() const {
  return std::string(must(metadata_.get_string("general.architecture")));
}

bool TensorFile::has_key(std::string_view suffix) const { return metadata_.has(key(suffix)); }

int64_t TensorFile::integer(std::string_view suffix) const {
  return static_cast<int64_t>(must(metadata_.get_uint(key(suffix))));
}

int64_t TensorFile::integer_or(std::string_view suffix, int64_t fallback) const {
  return has_key(suffix) ? integer(suffix) : fallback;
}

double TensorFile::number_or(std::string_view suffix, double fallback) const {
  return must(metadata_.get_float_or(key(suffix), fallback));
}

bool TensorFile::flag_or(std::string_view suffix, bool fallback) const {
  return must(metadata_.get_bool_or(key(suffix), fallback));
}

std::string TensorFile::text_or(std::string_view suffix, std::string_view fallback) const {
  return std::string(must(metadata_.get_string_or(key(suffix), fallback)));
}

Vector TensorFile::vector_or_none(const std::string& name) const {
  return has(name) ? vector(name) : Vector();
}

Vector TensorFile::vector(const std::string& name) const {
  const auto at = tensors_.find(name);
  SOLI_CHECK(at != tensors_.end(), "no tensor {}", name);
  return {at->second.values.begin(), at->second.values.end()};
}

Matrix TensorFile::matrix(const std::string& name, int64_t slice) const {
  const auto at = tensors_.find(name);
  SOLI_CHECK(at != tensors_.end(), "no tensor {}", name);
  const auto& dims = at->second.dims;
  SOLI_CHECK(slice >= 0 && slice < dims[2], "{} has no part {}", name, slice);
  return {at->second.values.data() + slice * dims[0] * dims[1], dims[1], dims[0]};
}

std::string in_layer(int64_t layer, const std::string& name) {
  return "blk." + std::to_string(layer) + "." + name;
}

}  // namespace soli::reference
