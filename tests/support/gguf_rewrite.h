#pragma once

// Copies of a GGUF file with changed metadata or tensors, for tests of what a model loader refuses.

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"

namespace soli {

/// A whole small model in memory. Mistakes of the test itself (a file that does not open) abort.
class GgufRewrite {
 public:
  struct Tensor {
    std::string name;
    uint32_t type;
    std::vector<int64_t> dims;
    std::string data;
  };

  explicit GgufRewrite(const std::string& path) {
    const Result<GgufFile> file = GgufFile::open(path);
    SOLI_CHECK(file.has_value(), "{}", file.error().message);
    alignment_ = static_cast<int64_t>(
        file->metadata().get_uint_or("general.alignment", kGgufDefaultAlignment).value());
    for (const auto& entry : file->metadata().entries()) {
      // The copy is one file, whatever the original was; the alignment is the writer's to set.
      if (entry.key.starts_with("split.") || entry.key == "general.alignment") continue;
      entries_.push_back(entry);
    }
    for (const GgufTensor& tensor : file->tensors()) {
      const std::vector<int64_t> dims(tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims);
      tensors_.push_back(
          {tensor.name, tensor.type, dims, std::string(static_cast<size_t>(tensor.bytes), '\0')});
      const Status read = file->shard(tensor.shard)
                              .read(tensor.offset, std::as_writable_bytes(std::span(tensors_.back().data)));
      SOLI_CHECK(read.has_value(), "{}", read.error().message);
    }
  }

  GgufRewrite& set(const std::string& key, GgufValue value) {
    remove(key);
    entries_.push_back({key, std::move(value)});
    return *this;
  }
  GgufRewrite& remove(const std::string& key) {
    std::erase_if(entries_, [&](const auto& entry) { return entry.key == key; });
    return *this;
  }
  /// Makes it a file of another family; the keys "<architecture>.*" follow.
  GgufRewrite& set_architecture(const std::string& architecture) {
    const auto at = std::find_if(entries_.begin(), entries_.end(),
                                 [](const auto& entry) { return entry.key == "general.architecture"; });
    SOLI_CHECK(at != entries_.end(), "no general.architecture");
    const std::string old_prefix = at->value.bytes + ".";
    at->value = GgufValue::of_string(architecture);
    for (auto& entry : entries_) {
      if (entry.key.starts_with(old_prefix))
        entry.key = architecture + "." + entry.key.substr(old_prefix.size());
    }
    return *this;
  }
  GgufRewrite& set_alignment(int64_t alignment) {
    alignment_ = alignment;
    return *this;
  }
  GgufRewrite& remove_tensor(const std::string& name) {
    std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
    return *this;
  }
  /// Free to be changed, added to and reordered; data must keep to type and dims.
  std::vector<Tensor>& tensors() { return tensors_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  Tensor& tensor(const std::string& name) {
    const auto at =
        std::find_if(tensors_.begin(), tensors_.end(), [&](const Tensor& t) { return t.name == name; });
    SOLI_CHECK(at != tensors_.end(), "no tensor '{}'", name);
    return *at;
  }

  /// Turns each "blk.N.ffn_{gate,up,down}_exps.weight" into one tensor per expert, "blk.N.ffn_gate.E.weight",
  /// as the first Mixtral files had them, and sorts all tensors by name: 0, 1, 10, 11, 2.
  GgufRewrite& split_experts() {
    std::vector<Tensor> out;
    for (Tensor& tensor : tensors_) {
      const size_t at = tensor.name.find("_exps.weight");
      if (at == std::string::npos) {
        out.push_back(std::move(tensor));
        continue;
      }
      const size_t bytes = tensor.data.size() / static_cast<size_t>(tensor.dims[2]);
      for (int64_t e = 0; e < tensor.dims[2]; ++e) {
        out.push_back({tensor.name.substr(0, at) + "." + std::to_string(e) + ".weight",
                       tensor.type,
                       {tensor.dims[0], tensor.dims[1]},
                       tensor.data.substr(static_cast<size_t>(e) * bytes, bytes)});
      }
    }
    std::sort(out.begin(), out.end(), [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
    tensors_ = std::move(out);
    return *this;
  }

  /// Writes the copy and returns `path`.
  std::string write(const std::string& path) const {
    GgufWriter writer;
    if (alignment_ != kGgufDefaultAlignment) writer.set_alignment(alignment_);
    for (const auto& entry : entries_) writer.set(entry.key, entry.value);
    for (const Tensor& tensor : tensors_) require(writer.add_tensor(tensor.name, tensor.type, tensor.dims));
    require(writer.begin(path));
    for (const Tensor& tensor : tensors_) require(writer.append(std::as_bytes(std::span(tensor.data))));
    require(writer.finish());
    return path;
  }

 private:
  static void require(const Status& status) { SOLI_CHECK(status.has_value(), "{}", status.error().message); }

  int64_t alignment_ = kGgufDefaultAlignment;
  std::vector<GgufMetadata::Entry> entries_;
  std::vector<Tensor> tensors_;
};

}  // namespace soli
