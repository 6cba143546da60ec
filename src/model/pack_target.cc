#include "model/pack_target.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "io/file_writer.h"

namespace soli {
namespace {

namespace fs = std::filesystem;

std::string folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

/// Whether a file in `a` is one in `b`.
bool same_folder(const std::string& a, const std::string& b) {
  std::error_code missing;  // which creating the file will tell
  return fs::equivalent(a, b, missing);
}

/// Makes `link` lead to `path`, in place of whatever has its name.
Status make_link(const std::string& path, const std::string& link) {
  const std::string temporary = fmt::format("{}.{}.tmp", link, ::getpid());
  std::error_code error;
  const fs::path target = fs::canonical(path, error);
  if (!error) fs::create_symlink(target, temporary, error);
  if (!error) fs::rename(temporary, link, error);
  if (!error) return {};
  std::error_code ignored;
  fs::remove(temporary, ignored);
  return fail(ErrorKind::kIo, "{}: cannot link to {}: {}", link, path, error.message());
}

}  // namespace

Result<PackTargets> PackTargets::plan(const PackOptions& options, const GgufFile& model) {
  PackTargets targets;
  if (options.folders.empty()) {
    targets.targets_.emplace_back().path = options.out;
  } else {
    constexpr std::string_view kEnding = ".gguf";
    std::string prefix = options.out;
    if (prefix.ends_with(kEnding)) prefix.resize(prefix.size() - kEnding.size());
    const std::string name = fs::path(prefix).filename();
    if (name.empty()) return fail(ErrorKind::kInvalidArgument, "{}: it names no file", options.out);
    const size_t n_shards = options.folders.size() + 1;
    if (n_shards > kGgufMaxShards) {
      return fail(ErrorKind::kLimit, "{}: {} folders; at most {} are allowed", options.out,
                  options.folders.size(), kGgufMaxShards - 1);
    }
    targets.targets_.emplace_back().path = prefix + gguf_shard_suffix(0, n_shards);
    for (size_t i = 1; i < n_shards; ++i) {
      const std::string& folder = options.folders[i - 1];
      const std::string suffix = gguf_shard_suffix(i, n_shards);
      PackTarget& target = targets.targets_.emplace_back();
      target.path = fs::path(folder) / (name + suffix);
      if (!same_folder(folder, folder_of(prefix))) target.link = prefix + suffix;
    }
  }
  SOLI_RETURN_IF_ERROR(targets.check(model));
  return targets;
}

Status PackTargets::check(const GgufFile& model) const {
  for (const PackTarget& target : targets_) {
    for (const std::string& path : {target.path, target.link}) {
      if (path.empty()) continue;
      SOLI_RETURN_IF_ERROR(FileWriter::check(path));
      if (model.has_file(path))
        return fail(ErrorKind::kInvalidArgument, "{}: it is the model, and would be written over", path);
      std::error_code missing;
      if (fs::exists(path, missing) && !fs::is_regular_file(path, missing))
        return fail(ErrorKind::kInvalidArgument, "{}: is a pipe or a device, not a regular file", path);
    }
  }
  return {};
}

/// Of all files on one disk together.
Status PackTargets::check_room() const {
  std::map<dev_t, int64_t> bytes_of;
  for (const PackTarget& target : targets_) {
    struct stat status = {};
    if (::stat(folder_of(target.path).c_str(), &status) != 0) continue;  // creating the file will tell
    int64_t& bytes = bytes_of[status.st_dev];
    bytes += target.writer.file_bytes();
    SOLI_RETURN_IF_ERROR(FileWriter::check_room(target.path, bytes));
  }
  return {};
}

Status PackTargets::begin() {
  for (PackTarget& target : targets_) SOLI_RETURN_IF_ERROR(target.writer.begin(target.path));
  return check_room();
}

Status PackTargets::commit() {
  const auto finish = [&](PackTarget& target) -> Status {
    SOLI_RETURN_IF_ERROR(target.writer.finish());
    finished_.push_back(target.path);
    if (target.link.empty()) return {};
    SOLI_RETURN_IF_ERROR(make_link(target.path, target.link));
    finished_.push_back(target.link);
    return {};
  };
  // The first one makes the model appear.
  for (size_t i = targets_.size(); i-- > 0;) SOLI_RETURN_IF_ERROR(finish(targets_[i]));
  finished_.clear();
  return {};
}

PackTargets::~PackTargets() {
  for (const std::string& path : finished_) ::unlink(path.c_str());
}

}  // namespace soli
