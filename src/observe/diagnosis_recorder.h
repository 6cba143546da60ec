#pragma once

// What each feed-forward does to each token of one text: by which the token is diagnosed [O8].

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/hooks.h"
#include "observe/active_units.h"
#include "observe/logit_lens.h"

namespace soli {

/// What a feed-forward of a layer is.
enum class FfnKind : uint8_t {
  kRouted,  // an expert that was chosen
  kShared,  // the shared experts of a layer, as one
  kDense,   // that of a dense layer
};
const char* name_of(FfnKind kind);  // "routed", "shared", "dense"

/// One feed-forward at work on one token. It adds c = s w y to the residual stream r: y its output, w its
/// weight, s the model's residual scale.
struct FfnCall {
  FfnKind kind = FfnKind::kRouted;
  int32_t expert = -1;       // of a routed one
  float weight = 1;          // w: the routing weight, or the shared experts' gate
  float residual_ratio = 0;  // |c| / |r|, Euclidean; 0 where r is 0
  float active_share = 0;    // of its inner units: ActiveUnits
};

/// One token in one layer.
struct LayerPath {
  float residual_norm = 0;  // |r|, before the feed-forward
  float added_ratio = 0;    // |sum of c| / |r|: of all calls together
  int64_t first_call = 0;
  int64_t n_calls = 0;  // routed ones in the order of the choice, then the one that every token goes through
};

/// One feed-forward over the whole text.
struct UsedFfn {
  int64_t layer = 0;
  FfnKind kind = FfnKind::kRouted;
  int32_t expert = -1;
  int64_t n_calls = 0;
  double active_share = 0;  // mean over calls
  int64_t n_units = 0;
  int64_t n_dead = 0;  // units that were active in no call
};

struct TokenDiagnosis {
  int64_t n_layers = 0;
  int64_t n_top = 0;             // tokens that each call says; 0: nobody asked
  std::vector<int32_t> tokens;   // [positions]
  std::vector<LayerPath> paths;  // [positions][layers]
  std::vector<FfnCall> calls;
  std::vector<SaidToken> said;  // [calls][n_top] the logit lens of c
  std::vector<UsedFfn> used;    // those with a call, by layer, experts ascending

  int64_t n_tokens() const { return static_cast<int64_t>(tokens.size()); }
  const LayerPath& path(int64_t position, int64_t layer) const {
    return paths[static_cast<size_t>(position * n_layers + layer)];
  }
  std::span<const FfnCall> calls_of(const LayerPath& path) const;
  std::span<const SaidToken> said_by(int64_t call) const;
};

/// Records the first positions of one request, each of which is computed once. Engine's thread. Sees and
/// changes nothing. Memory is taken at once.
class DiagnosisRecorder final : public FfnObserver {
 public:
  struct Options {
    ActivationPrecision activations = ActivationPrecision::kQ8;  // of the logit lens
    int64_t max_tokens = 256;
    int64_t max_experts_per_token = 0;  // that a policy may choose; 0: the model's k
    int64_t n_top = 5;
    double active_threshold = 0.1;
    std::function<void(int64_t n_layers)> on_progress = {};  // layers of tokens that are done
  };
  /// Borrows the model.
  DiagnosisRecorder(const Model& model, Options options);
  /// Memory that it takes.
  static int64_t bytes_needed(const ModelSpec& spec, const Options& options);

  void on_ffn(const FfnView& view) override;
  /// What was recorded. After the last step.
  TokenDiagnosis finish() &&;

 private:
  void add_row(const FfnView& view, int64_t row);
  void add_call(const FfnView& view, int64_t row, FfnCall call, const float* y, std::span<const float> inner);
  void say_waiting();

  const ModelSpec& spec_;
  const Options options_;
  ActiveUnits units_;
  std::optional<LogitLens> lens_;
  TokenDiagnosis diagnosis_;
  std::vector<float> waiting_;  // [LogitLens::kMaxRows][hidden] c of the last calls, for the lens
  int64_t n_waiting_ = 0;
  int64_t n_done_ = 0;
};

}  // namespace soli
