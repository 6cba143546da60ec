#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/model_file.h"
#include "ops/context.h"

namespace soli::cli {

/// "f32", "bf16" or "q8": how activations really meet the weights of a GGUF type when `asked` is chosen.
/// Absent: soli has no kernels for the type.
std::optional<std::string_view> effective_precision(const kernels::KernelTable& kernels, uint32_t gguf_type,
                                                    ActivationPrecision asked);

/// Types of the matrices of a model, ascending, each once.
std::vector<uint32_t> matrix_types(const ModelFile& file);

}  // namespace soli::cli
