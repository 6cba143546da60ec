#pragma once

#include "format/gguf_writer.h"
#include "model/family.h"

namespace soli {

/// Sets all keys of a synthetic file: the model's, from the family's table, and those of a vocabulary that
/// encodes any text byte by byte. Token ids: 0 to 255 the bytes, then "<|begin|>", "<|end|>", and texts like
/// "[259]", which show a generated id as it is.
void set_synth_metadata(const Family& family, const ModelSpec& spec, bool fuse_attention, GgufWriter& writer);

}  // namespace soli
