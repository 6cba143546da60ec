#pragma once

// What a chat template may cost. Templates come with model files and so from strangers; every published one
// stays far below these limits.

#include <cstddef>

namespace soli::jinja {

/// Longest source of a template, in bytes.
inline constexpr size_t kMaxSourceBytes = size_t{256} << 10;
/// Statements within statements plus expressions within expressions. Chains such as a + b + c, elif after
/// elif, or one statement after the other do not nest.
inline constexpr int kMaxNesting = 40;
/// Lists and mappings within one another, in the inputs and in what a template makes.
inline constexpr int kMaxValueDepth = 64;
/// Elements of range(), the limit of Jinja's own sandbox.
inline constexpr size_t kMaxRange = 100'000;
/// Bytes of a string that is a key of a mapping: looking one up costs no more than a step then.
inline constexpr size_t kMaxKeyBytes = 4096;
/// Width that a filter or a format may ask for: padding, indentation, digits.
inline constexpr size_t kMaxWidth = 10'000;

/// Limits of one rendering.
struct RenderLimits {
  /// One per node that is evaluated, per element that is copied, and per 32 bytes that are looked at: some
  /// seconds at most.
  size_t steps = size_t{1} << 24;
  /// Of the rendered text.
  size_t output_bytes = size_t{64} << 20;
  /// Of all values alive at one time, the inputs included.
  size_t value_bytes = size_t{256} << 20;
  /// Nodes under evaluation within one another, through macros that call macros. Fits a stack of 256 KiB.
  int depth = 300;
};

}  // namespace soli::jinja
