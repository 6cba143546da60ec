#pragma once

// Work that is measured: prompts to read and sequences that decode together, of random tokens that are the
// same in every repetition and in every run.

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "cli/interrupt.h"
#include "cli/session.h"

namespace soli::cli {

/// Seconds of a clock that never goes back.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

/// Sequences of one engine of which each gains one token per step. Leaves them when destroyed.
class DecodeBatch {
 public:
  DecodeBatch(DecodeBatch&&) = default;
  ~DecodeBatch();

  /// One step. Fails with kCancelled on Ctrl-C, and where a sequence fails.
  Status step();
  int64_t n_sequences() const { return static_cast<int64_t>(sequences_.size()); }
  /// Positions of all sequences whose keys and values the next step meets, its own included.
  int64_t n_positions() const;
  /// The keys of them that it sees, over all layers: fewer where layers have windows.
  int64_t keys_seen(const ModelSpec& spec) const;

 private:
  friend class Workbench;
  struct Running {
    std::shared_ptr<Stream> stream;
    int64_t n_tokens = 0;  // prompt and generated; 0 until the first token is there
  };
  DecodeBatch(Engine& engine, const InterruptGuard& interrupt) : engine_(&engine), interrupt_(&interrupt) {}
  /// Runs a step and takes what the streams hold.
  Status advance();

  Engine* engine_;
  const InterruptGuard* interrupt_;
  std::vector<Running> sequences_;
};

/// So many ordinary tokens, the same in every run.
std::vector<int32_t> random_tokens(Session& session, int64_t n);

class Workbench {
 public:
  /// Tokens of the prompt of a sequence that decodes.
  static constexpr int64_t kDecodePromptTokens = 16;
  /// Positions that one of `n_sequences` needs to decode `n_steps` times, where a step has `chunk_rows`:
  /// those that are ready go on while the last prompts are read.
  static int64_t decode_positions(int64_t n_sequences, int64_t n_steps, int64_t chunk_rows);

  /// Borrows both; the session is loaded.
  Workbench(Session& session, const InterruptGuard& interrupt);

  /// Reads a prompt of so many tokens; returns the seconds until the first token. Fails with kCancelled on
  /// Ctrl-C.
  Result<double> prefill(int64_t n_tokens);
  /// Sequences that have read their prompts. Fails with kCancelled on Ctrl-C.
  Result<DecodeBatch> start_decode(int64_t n_sequences);

 private:
  std::vector<int32_t> random_prompt(int64_t n_tokens, uint64_t number) const;

  Engine& engine_;
  const RoutingPolicy& policy_;  // of the session
  const InterruptGuard& interrupt_;
  std::vector<int32_t> tokens_;  // that may stand in a prompt
};

}  // namespace soli::cli
