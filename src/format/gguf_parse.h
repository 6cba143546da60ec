#pragma once

// The header of one GGUF file (one shard of a set), read through bounded buffers and checked against every
// limit.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/gguf.h"

namespace soli {

/// Bytes at offsets: a file, or memory in the fuzz target.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual int64_t size() const = 0;
  /// Fills all of `out` from `offset`. The range lies inside the source.
  virtual Status read(int64_t offset, std::span<std::byte> out) const = 0;
};

/// What one file says about itself.
struct GgufShard {
  uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;  // shard 0; offsets from the start of the file
};

/// What is left of the limits of a set; each shard's header is taken from it.
struct GgufAllowance {
  uint64_t header_bytes = kGgufMaxHeaderBytes;
  uint64_t tensors = kGgufMaxTensors;
};

/// Parses and checks everything but split keys and tensor data. `name` is put before every error. Takes
/// memory in proportion to the bytes that are really there, never to a count that the file claims.
Result<GgufShard> parse_gguf(const ByteSource& source, const std::string& name, GgufAllowance& allowance);

}  // namespace soli
