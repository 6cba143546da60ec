#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/model_file.h"
#include "ops/context.h"

namespace soli::cli {

/// How activations really meet the weights of a GGUF type when `asked` is chosen: kQ8 falls back to kF32 for
/// a type without integer kernels. Absent: soli has no kernels for the type.
std::optional<ActivationPrecision> effective_precision(const kernels::KernelTable& kernels,
                                                       uint32_t gguf_type, ActivationPrecision asked);

/// Types of the matrices of a model, ascending, each once.
std::vector<uint32_t> matrix_types(const ModelFile& file);

}  // namespace soli::cli
