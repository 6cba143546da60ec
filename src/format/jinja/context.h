#pragma once

// What one rendering has used of its limits, and the only way to make values that live on the heap.

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "format/jinja/limits.h"
#include "format/jinja/value.h"

namespace soli::jinja {

/// Used by one thread. Every function that fails does so with kLimit, naming the limit.
class Context {
 public:
  explicit Context(const RenderLimits& limits, std::optional<std::tm> now = std::nullopt)
      : limits_(limits), now_(now) {}

  const RenderLimits& limits() const { return limits_; }
  /// Charges work before it is done.
  Status work(size_t steps);
  /// Charges looking at so many bytes.
  Status look_at(size_t bytes) { return work(bytes / kBytesPerStep + 1); }
  /// Fails if so many bytes more cannot be held. Asked before they are allocated.
  Status room_for(size_t bytes) const;

  Result<Value> text(std::string bytes, bool is_markup = false);
  Result<Value> list(std::vector<Value> items) { return sequence(std::move(items), false); }
  Result<Value> tuple(std::vector<Value> items) { return sequence(std::move(items), true); }
  /// Of two entries with one key the later value stays, at the earlier place. Fails with kInvalidArgument for
  /// a key that Python could not hash.
  Result<Value> dict(std::vector<Dict::Entry> entries);
  Meter& meter() { return meter_; }

  /// What strftime_now() shows: the time that was given, or the machine's.
  std::tm now() const;

 private:
  static constexpr size_t kBytesPerStep = 32;
  Result<Value> sequence(std::vector<Value> items, bool is_tuple);

  const RenderLimits limits_;
  const std::optional<std::tm> now_;
  Meter meter_;
  size_t steps_ = 0;
};

/// Text that grows, and stops growing where the limits are reached. Its bytes count as used while it lives.
class TextBuilder {
 public:
  /// `max_bytes`: what the text may be at most, beside what the context has room for.
  explicit TextBuilder(Context& context, size_t max_bytes = SIZE_MAX)
      : context_(context), max_bytes_(max_bytes) {}
  ~TextBuilder() { context_.meter().used -= charged_; }
  TextBuilder(const TextBuilder&) = delete;
  TextBuilder& operator=(const TextBuilder&) = delete;

  /// Does nothing once a limit is reached; finish() then fails.
  void append(std::string_view more);
  void append(size_t count, char c);
  /// For loops that would go on without an effect.
  bool failed() const { return failed_; }
  size_t size() const { return text_.size(); }

  Result<std::string> finish();
  Result<Value> finish_value();

 private:
  bool grow_by(size_t bytes);

  Context& context_;
  const size_t max_bytes_;
  std::string text_;
  size_t charged_ = 0;
  bool failed_ = false;
  Error error_ = {};
};

}  // namespace soli::jinja
