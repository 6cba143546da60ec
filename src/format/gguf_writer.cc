#include "format/gguf_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/check.h"

namespace soli {
namespace {

template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void put_string(std::string& out, std::string_view text) {
  put(out, uint64_t{text.size()});
  out += text;
}

void put_value(std::string& out, const GgufValue& value) {
  put(out, value.type);
  if (value.type == GgufType::kString) {
    put_string(out, value.bytes);
  } else if (value.type == GgufType::kArray) {
    put(out, value.element);
    put(out, value.count);
    if (value.element == GgufType::kString) {
      for (const std::string_view text : GgufStrings(value.bytes, value.ends)) put_string(out, text);
    } else {
      out += value.bytes;
    }
  } else {
    out += value.bytes;
  }
}

}  // namespace

void GgufWriter::set(const std::string& key, GgufValue value) {
  SOLI_CHECK(!file_, "set after begin");
  SOLI_CHECK(!key.empty() && key != kGgufAlignmentKey, "key '{}'", key);
  const auto same =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.key == key; });
  if (same != entries_.end()) {
    same->value = std::move(value);
  } else {
    entries_.push_back({key, std::move(value)});
  }
}

void GgufWriter::set_all(const GgufMetadata& metadata) {
  for (const GgufMetadata::Entry& entry : metadata.entries()) {
    if (entry.key != kGgufAlignmentKey) set(entry.key, entry.value);
  }
}

void GgufWriter::set_alignment(int64_t alignment) {
  SOLI_CHECK(!file_, "set_alignment after begin");
  SOLI_CHECK(alignment >= 8 && alignment <= static_cast<int64_t>(kGgufMaxAlignment) &&
                 std::has_single_bit(static_cast<uint64_t>(alignment)),
             "alignment {}", alignment);
  alignment_ = alignment;
  std::erase_if(entries_, [](const auto& entry) { return entry.key == kGgufAlignmentKey; });
  entries_.push_back(
      {std::string(kGgufAlignmentKey), GgufValue::of_uint32(static_cast<uint32_t>(alignment))});
}

Status GgufWriter::add_tensor(const std::string& name, uint32_t type, std::span<const int64_t> dims) {
  SOLI_CHECK(!file_, "add_tensor after begin");
  const std::string which = fmt::format("tensor '{}'", name);
  if (name.empty() || name.size() > kGgufMaxTensorNameBytes) {
    return fail(ErrorKind::kInvalidArgument, "{} has a name of {} bytes; 1 to {} are allowed", which,
                name.size(), kGgufMaxTensorNameBytes);
  }
  if (dims.empty() || dims.size() > kGgufMaxDims) {
    return fail(ErrorKind::kInvalidArgument, "{} has {} dimensions; 1 to {} are allowed", which, dims.size(),
                kGgufMaxDims);
  }
  GgufTensor tensor;
  tensor.name = name;
  tensor.type = type;
  tensor.n_dims = static_cast<int>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 1) return fail(ErrorKind::kInvalidArgument, "{} has a dimension of {}", which, dims[i]);
    tensor.dims[i] = dims[i];
  }
  Result<int64_t> bytes = ggml_tensor_bytes(type, tensor.dims);
  if (!bytes) return in_context(which, std::move(bytes).error());
  tensor.bytes = *bytes;
  tensors_.push_back(std::move(tensor));
  return {};
}

Status GgufWriter::begin(const std::string& path) {
  SOLI_CHECK(!file_, "begin twice");
  const std::string head = header();
  SOLI_ASSIGN_OR_RETURN(file_, FileWriter::create(path));
  SOLI_RETURN_IF_ERROR(file_->append(std::as_bytes(std::span(head))));
  return pad();
}

/// Everything in front of the data. Sets the offsets of the tensors and the size of the file on the way.
std::string GgufWriter::header() {
  std::string out = "GGUF";
  put(out, uint32_t{3});
  put(out, uint64_t{tensors_.size()});
  put(out, uint64_t{entries_.size()});
  for (const GgufMetadata::Entry& entry : entries_) {
    put_string(out, entry.key);
    value_offsets_.push_back(static_cast<int64_t>(out.size()));
    put_value(out, entry.value);
  }
  int64_t offset = 0;
  for (GgufTensor& tensor : tensors_) {
    tensor.offset = offset;
    offset = aligned(offset + tensor.bytes);
    put_string(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.n_dims));
    for (int i = 0; i < tensor.n_dims; ++i) put(out, tensor.dims[static_cast<size_t>(i)]);
    put(out, tensor.type);
    put(out, static_cast<uint64_t>(tensor.offset));
  }
  const int64_t data_begin = aligned(static_cast<int64_t>(out.size()));
  for (GgufTensor& tensor : tensors_) tensor.offset += data_begin;
  file_bytes_ = data_begin + offset;
  return out;
}

Status GgufWriter::append(std::span<const std::byte> bytes) {
  SOLI_CHECK(file_.has_value(), "append before begin");
  if (bytes.empty()) return {};
  SOLI_CHECK(current_ < tensors_.size(), "append after the last tensor");
  const GgufTensor& tensor = tensors_[current_];
  SOLI_CHECK(static_cast<int64_t>(bytes.size()) <= tensor.bytes - written_bytes_,
             "{}: {} bytes more than its {}", tensor.name, bytes.size(), tensor.bytes);
  SOLI_RETURN_IF_ERROR(file_->append(bytes));
  written_bytes_ += static_cast<int64_t>(bytes.size());
  if (written_bytes_ < tensor.bytes) return {};
  ++current_;
  written_bytes_ = 0;
  return pad();
}

Status GgufWriter::replace(const std::string& key, const GgufValue& value) {
  SOLI_CHECK(file_.has_value(), "replace before begin");
  const auto same =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& entry) { return entry.key == key; });
  SOLI_CHECK(same != entries_.end(), "key '{}' was not set", key);
  std::string before;
  std::string after;
  put_value(before, same->value);
  put_value(after, value);
  SOLI_CHECK(before.size() == after.size(), "key '{}': {} bytes for {}", key, after.size(), before.size());
  same->value = value;
  return file_->replace(value_offsets_[static_cast<size_t>(same - entries_.begin())],
                        std::as_bytes(std::span(after)));
}

Status GgufWriter::finish() {
  SOLI_CHECK(file_.has_value(), "finish before begin");
  SOLI_CHECK(current_ == tensors_.size(), "tensor '{}' lacks bytes", tensors_[current_].name);
  SOLI_CHECK(file_->size() == file_bytes_, "{} bytes written of {}", file_->size(), file_bytes_);
  const Status status = file_->commit();
  file_.reset();
  return status;
}

/// Zeros up to the next multiple of the alignment.
Status GgufWriter::pad() {
  static constexpr std::array<std::byte, 4096> kZeros{};
  while (const int64_t missing = aligned(file_->size()) - file_->size()) {
    const auto n = std::min(static_cast<size_t>(missing), kZeros.size());
    SOLI_RETURN_IF_ERROR(file_->append(std::span(kZeros).first(n)));
  }
  return {};
}

}  // namespace soli
