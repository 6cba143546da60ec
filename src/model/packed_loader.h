#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/slab.h"
#include "io/team_read.h"
#include "model/model_file.h"
#include "ops/runtime.h"

namespace soli {

/// The three matrices of an expert of a packed file, whose extent lies at `data` (null: not read yet). Fails
/// with kUnsupported for a weight type without kernels.
Result<std::array<PackedMatrix, kExpertMatrices>> matrices_of_extent(const ModelFile& file,
                                                                     const kernels::KernelTable& kernels,
                                                                     int64_t layer, int64_t expert,
                                                                     const std::byte* data);

/// Fails with kMalformed, naming layer, expert and place, where the bytes of an extent are not those that
/// were packed. Any thread.
Status check_extent(const ModelFile& file, int64_t layer, int64_t expert, std::span<const std::byte> extent);

/// Bytes of all extents of a packed file. Fails with kUnsupported for a weight type without kernels.
Result<int64_t> count_extent_bytes(const ModelFile& file, const kernels::KernelTable& kernels);

/// Reads all extents of a packed file into one slab, charged as `name`, layer by layer and expert by expert,
/// without a second copy, and checks each. Fails with kUnsupported for a weight type without kernels, with
/// kLimit (budget), kIo, or what check_extent() gives.
Result<Slab> load_extents(const ModelFile& file, Runtime& runtime, const std::string& name,
                          const LoadProgress& progress);

/// Reads all extents, a few at a time, and tells what is wrong with those that are damaged, in the order of
/// the layers. Fails where one cannot be read.
Result<std::vector<std::string>> find_damage(const ModelFile& file, Runtime& runtime,
                                             const LoadProgress& progress);

}  // namespace soli
