#pragma once

// What the tokens of one choice activated, for its answer.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/token_routing.h"
#include "observe/activation_recorder.h"
#include "serve/openai/job.h"
#include "serve/openai/served_model.h"

namespace soli::openai {

/// Bytes that the routing of one answer may take; what goes beyond is counted, and said in the answer.
inline constexpr int64_t kMaxRoutingBytes = int64_t{128} << 20;

/// Collects the routing of one choice. Each position counts once, in ascending order.
class ChoiceRouting {
 public:
  /// The model is borrowed. `n_prompt` positions are the prompt's.
  ChoiceRouting(const ServedModel& model, RoutingDetail detail, int64_t n_prompt)
      : model_(&model), detail_(detail), n_prompt_(n_prompt) {}

  /// Adds what `token` called. Takes the bytes that it needs from `bytes_left`.
  void add(const TokenRouting& routing, int32_t token, int64_t& bytes_left);

  /// The next position whose routing has not been added.
  int64_t next_position() const { return next_position_; }
  /// {"position","token","experts","weights"} of every token since the last clear_tokens(), comma-separated;
  /// "" without RoutingDetail::kTokens.
  const std::string& tokens() const { return tokens_; }
  /// Gives their bytes back.
  void clear_tokens(int64_t& bytes_left);
  /// The activation summary of all tokens.
  Json summary(int64_t experts_per_token) const;

 private:
  void append_token(const TokenRouting& routing, int32_t token);

  const ServedModel* model_;
  RoutingDetail detail_;
  int64_t n_prompt_;
  int64_t next_position_ = 0;
  int64_t n_dropped_ = 0;  // tokens
  RequestChoices choices_;
  std::string tokens_;
};

}  // namespace soli::openai
