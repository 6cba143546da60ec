#include "format/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "format/gguf_parse.h"

namespace soli {
namespace {

class FileSource : public ByteSource {
 public:
  explicit FileSource(const File& file) : file_(file) {}
  int64_t size() const override { return file_.size(); }
  Status read(int64_t offset, std::span<std::byte> out) const override { return file_.read(offset, out); }

 private:
  const File& file_;
};

Result<GgufShard> parse_file(const File& file, GgufAllowance& allowance) {
  return parse_gguf(FileSource(file), file.path(), allowance);
}

/// Which part of a set a file says it is. A single file is shard 0 of 1.
struct SplitPlace {
  uint64_t index = 0;  // split.no, from 0, while file names count from 1
  uint64_t count = 1;
};

Result<SplitPlace> split_place(const File& file, const GgufMetadata& metadata) {
  SplitPlace place;
  SOLI_ASSIGN_OR_RETURN(place.count, metadata.get_uint_or("split.count", 1));
  SOLI_ASSIGN_OR_RETURN(place.index, metadata.get_uint_or("split.no", 0));
  place.count = std::max<uint64_t>(place.count, 1);  // writers set 0 for a file that is not split
  if (place.count > kGgufMaxShards) {
    return fail(ErrorKind::kLimit, "{}: split.count is {}; at most {} shards are allowed", file.path(),
                place.count, kGgufMaxShards);
  }
  if (place.index >= place.count) {
    return fail(ErrorKind::kMalformed, "{}: split.no is {}, and must be below split.count, which is {}",
                file.path(), place.index, place.count);
  }
  return place;
}

/// The part of a shard's path that all shards of its set share. Only the path that the user gave decides
/// where the others are looked for; nothing inside a file can name another file.
Result<std::string> set_prefix(const File& file, const SplitPlace& place) {
  const std::string suffix = gguf_shard_suffix(place.index, place.count);
  if (!file.path().ends_with(suffix)) {
    return fail(ErrorKind::kMalformed,
                "{}: is shard {} of {} by its metadata, so its name must end in '{}' for the other shards to "
                "be found",
                file.path(), place.index + 1, place.count, suffix);
  }
  return file.path().substr(0, file.path().size() - suffix.size());
}

Result<File> open_shard(const std::string& prefix, const SplitPlace& place) {
  Result<File> file = File::open(prefix + gguf_shard_suffix(place.index, place.count));
  if (file) return file;
  return in_context(fmt::format("shard {} of {} is missing", place.index + 1, place.count),
                    std::move(file).error());
}

Status check_place(const File& file, const GgufMetadata& metadata, const SplitPlace& wanted) {
  SOLI_ASSIGN_OR_RETURN(const SplitPlace place, split_place(file, metadata));
  if (place.index == wanted.index && place.count == wanted.count) return {};
  return fail(ErrorKind::kMalformed, "{}: is shard {} of {} by its metadata, and shard {} of {} by its name",
              file.path(), place.index + 1, place.count, wanted.index + 1, wanted.count);
}

}  // namespace

std::string gguf_shard_suffix(uint64_t index, uint64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", index + 1, count);
}

int64_t GgufTensor::row_bytes() const {
  const GgmlType* type_info = find_ggml_type(type);
  return dims[0] / type_info->block_elements * type_info->block_bytes;
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  GgufFile set;
  std::string prefix;
  SplitPlace place;
  {
    SOLI_ASSIGN_OR_RETURN(File file, File::open(path));
    GgufAllowance allowance;
    SOLI_ASSIGN_OR_RETURN(GgufShard shard, parse_file(file, allowance));
    SOLI_ASSIGN_OR_RETURN(place, split_place(file, shard.metadata));
    if (place.count == 1) {
      set.version_ = shard.version;
      set.metadata_ = std::move(shard.metadata);
      set.append_shard(std::move(file), std::move(shard.tensors));
      SOLI_RETURN_IF_ERROR(set.index_tensors());
      return set;
    }
    SOLI_ASSIGN_OR_RETURN(prefix, set_prefix(file, place));
  }
  // The given shard is read again in its turn, so that there is one order of reading and one set of limits.
  GgufAllowance allowance;
  for (place.index = 0; place.index < place.count; ++place.index) {
    SOLI_ASSIGN_OR_RETURN(File file, open_shard(prefix, place));
    SOLI_ASSIGN_OR_RETURN(GgufShard shard, parse_file(file, allowance));
    SOLI_RETURN_IF_ERROR(check_place(file, shard.metadata, place));
    if (place.index == 0) {
      set.version_ = shard.version;
      set.metadata_ = std::move(shard.metadata);
    }
    set.append_shard(std::move(file), std::move(shard.tensors));
  }
  SOLI_RETURN_IF_ERROR(set.index_tensors());
  return set;
}

void GgufFile::append_shard(File file, std::vector<GgufTensor> tensors) {
  for (GgufTensor& tensor : tensors) {
    tensor.shard = n_shards();
    tensor_bytes_ += tensor.bytes;
  }
  file_bytes_ += file.size();
  shards_.push_back(std::move(file));
  if (tensors_.empty()) {
    tensors_ = std::move(tensors);
  } else {
    std::move(tensors.begin(), tensors.end(), std::back_inserter(tensors_));
  }
}

Status GgufFile::index_tensors() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0U);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return tensors_[a].name < tensors_[b].name; });
  for (size_t i = 1; i < by_name_.size(); ++i) {
    if (tensors_[by_name_[i]].name == tensors_[by_name_[i - 1]].name) {
      return fail(ErrorKind::kMalformed, "{}: tensor '{}' appears twice", path(), tensors_[by_name_[i]].name);
    }
  }
  SOLI_ASSIGN_OR_RETURN(const uint64_t count, metadata_.get_uint_or("split.tensors.count", tensors_.size()));
  if (count != tensors_.size()) {
    return fail(ErrorKind::kMalformed, "{}: split.tensors.count is {}, and the {} shards have {} tensors",
                path(), count, shards_.size(), tensors_.size());
  }
  return {};
}

Status GgufFile::check_unchanged() const {
  for (const File& shard : shards_) SOLI_RETURN_IF_ERROR(shard.check_unchanged());
  return {};
}

bool GgufFile::has_file(const std::string& path) const {
  return std::any_of(shards_.begin(), shards_.end(), [&](const File& shard) {
    std::error_code missing;  // then they are two
    return std::filesystem::equivalent(path, shard.path(), missing);
  });
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](uint32_t i, std::string_view wanted) { return tensors_[i].name < wanted; });
  return at != by_name_.end() && tensors_[*at].name == name ? &tensors_[*at] : nullptr;
}

}  // namespace soli
