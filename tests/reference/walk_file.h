#pragma once

#include <string>

#include "reference/walk_shape.h"

namespace soli::reference {

/// Writes a model of that shape with random F32 weights, biases, norms and sinks.
void write_model(const WalkShape& shape, const std::string& path);

}  // namespace soli::reference
