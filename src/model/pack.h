#pragma once

// Writes packed models (docs/packed-models.md): model files whose routed experts are read at once, and used
// as they lie.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/model_file.h"
#include "ops/runtime.h"

namespace soli {

struct PackOptions {
  /// The file to write. With folders: what the names of the split set begin with; a ".gguf" at its end is
  /// left out.
  std::string out;
  /// None: one file holds everything. Else each gets a shard with its part of the experts, expert e of a
  /// layer in shard e mod n, and a link to it stands beside the first shard, which holds all else.
  std::vector<std::string> folders = {};
};

/// What was written: the files themselves, the one to open first, and their bytes.
struct PackedFiles {
  std::vector<std::string> paths;
  int64_t bytes = 0;
};

/// Told after each chunk; false stops the writing.
using PackProgress = std::function<bool(int64_t bytes_done, int64_t bytes_total)>;

/// Writes a packed copy of a model, over one that is there; it appears when it is complete. The bytes depend
/// on the model alone. Holds some experts in memory at a time, charged as "packing". Fails, leaving nothing,
/// with kInvalidArgument for a model that is packed already or would be written over, with kUnsupported for
/// one without experts, of types without kernels, or with several weight types among the experts of a layer,
/// with kLimit where a disk has not enough room, with kIo, and with kCancelled where `progress` says so.
/// `progress` may be empty; it is called on this thread.
Result<PackedFiles> pack_model(const ModelFile& file, const PackOptions& options, Runtime& runtime,
                               const PackProgress& progress);

}  // namespace soli
