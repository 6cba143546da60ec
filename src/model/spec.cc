#include "model/spec.h"

#include <algorithm>
#include <cmath>

namespace soli {

double ModelSpec::effective_attention_scale() const {
  if (attention_scale != 0) return attention_scale;
  const double plain = 1 / std::sqrt(static_cast<double>(projected_key_dim()));
  if (position_scaling != PositionScaling::kYarn) return plain;
  // DeepSeek-V2's mscale_all_dim, of which the multiplier is a tenth: once for the query and once for the
  // key.
  const double magnitude = 1 + yarn_log_multiplier * std::log(std::max(1.0, rope_scale));
  return plain * magnitude * magnitude;
}

int64_t ModelSpec::n_window_layers() const {
  int64_t n = 0;
  for (int64_t layer = 0; layer < n_layers; ++layer) n += has_window(layer) ? 1 : 0;
  return n;
}

int64_t ModelSpec::keys_seen(int64_t position, int64_t n_rows) const {
  const int64_t n_windows = n_window_layers();
  const int64_t all = position + 1;
  return (n_layers - n_windows) * all + n_windows * std::min(all, sliding_window + n_rows - 1);
}

}  // namespace soli
