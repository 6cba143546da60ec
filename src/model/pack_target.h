#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "format/gguf.h"
#include "format/gguf_writer.h"
#include "model/pack.h"

namespace soli {

/// A file that pack_model() writes.
struct PackTarget {
  std::string path;
  std::string link;  // where a link to it is to stand; empty: nowhere, it has its place itself
  GgufWriter writer;
};

/// All of them. Appears as a whole, or not at all. Move-only.
class PackTargets {
 public:
  /// Names the files. Fails with kInvalidArgument where one would take the place of the model itself or is no
  /// regular file, and with kNotFound or kIo where a folder is missing or closed to us.
  static Result<PackTargets> plan(const PackOptions& options, const GgufFile& model);

  PackTargets(PackTargets&&) = default;
  PackTargets& operator=(PackTargets&&) = delete;
  /// Removes what a commit() that failed has finished.
  ~PackTargets();

  /// The first one is to be opened; with several, it holds no experts.
  std::vector<PackTarget>& all() { return targets_; }
  /// Creates the files, whose writers know all keys and tensors. Fails with kLimit where a disk lacks room.
  Status begin();
  /// Gives all files their names, the first one last, and makes the links.
  Status commit();

 private:
  PackTargets() = default;
  Status check(const GgufFile& model) const;
  Status check_room() const;

  std::vector<PackTarget> targets_;
  std::vector<std::string> finished_;  // to be removed unless all is well
};

}  // namespace soli
