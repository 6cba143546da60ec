#pragma once

#include <string>

#include "model/model_file.h"

namespace soli {

/// 16 hexadecimal digits that tell models apart, packed or not: a hash (SplitMix64) of architecture and name,
/// of name, type and shape of every tensor as the plain file has them, and of up to a MiB of the first
/// router. Not made to withstand anybody who wants two to be the same. Fails with kIo or kMalformed where
/// that cannot be read.
Result<std::string> model_id(const ModelFile& file);

}  // namespace soli
