#include "cli/divergence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/sampler.h"
#include "io/file_writer.h"

namespace soli::cli {
namespace {

/// ln of the sum of the exponentials of all logits.
double log_sum_exp(std::span<const float> logits) {
  const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum);
}

}  // namespace

double kl_divergence(std::span<const float> p_logits, std::span<const float> q_logits) {
  const double p_norm = log_sum_exp(p_logits);
  const double q_norm = log_sum_exp(q_logits);
  double kl = 0;
  for (size_t i = 0; i < p_logits.size(); ++i) {
    const double log_p = static_cast<double>(p_logits[i]) - p_norm;
    const double log_q = static_cast<double>(q_logits[i]) - q_norm;
    kl += std::exp(log_p) * (log_p - log_q);
  }
  return std::max(0.0, kl);  // rounding may leave a little less
}

Result<DivergenceMeter> DivergenceMeter::create(const WindowPlan& plan, int64_t vocab_size) {
  SOLI_ASSIGN_OR_RETURN(ScratchFile file, ScratchFile::create());
  DivergenceMeter meter(std::move(file), plan, vocab_size);
  const int64_t bytes = meter.offset_of(plan.windows.size(), 0);
  Status room = FileWriter::check_room(meter.file_.folder() + "/soli", bytes);
  if (!room) return in_context("for the distributions of the exact run", std::move(room).error());
  return meter;
}

DivergenceMeter::DivergenceMeter(ScratchFile file, const WindowPlan& plan, int64_t vocab_size)
    : file_(std::move(file)),
      vocab_size_(vocab_size),
      first_row_(1, 0),
      reference_(static_cast<size_t>(vocab_size)),
      by_window_(plan.windows.size()) {
  for (const auto& window : plan.windows)
    first_row_.push_back(first_row_.back() + static_cast<int64_t>(window.size()));
}

int64_t DivergenceMeter::offset_of(size_t window, int64_t position) const {
  return (first_row_[window] + position) * vocab_size_ * static_cast<int64_t>(sizeof(float));
}

Status DivergenceMeter::set_reference(size_t window, int64_t position, std::span<const float> logits) {
  return file_.write(offset_of(window, position), std::as_bytes(logits));
}

Status DivergenceMeter::compare(size_t window, int64_t position, std::span<const float> logits) {
  SOLI_RETURN_IF_ERROR(
      file_.read(offset_of(window, position), std::as_writable_bytes(std::span(reference_))));
  const double kl = kl_divergence(reference_, logits);
  kl_.push_back(kl);
  by_window_[window].nats += kl;
  by_window_[window].n_tokens += 1;
  n_agreed_ += argmax(reference_) == argmax(logits) ? 1 : 0;
  return {};
}

Divergence DivergenceMeter::result() const {
  Divergence result = {.n_positions = static_cast<int64_t>(kl_.size())};
  if (kl_.empty()) return result;
  std::vector<WindowLoss> windows = by_window_;
  std::erase_if(windows, [](const WindowLoss& window) { return window.n_tokens == 0; });
  const Perplexity mean = combine(windows);  // the same mean over windows, and its error
  result.mean_kl = mean.nats_per_token;
  result.mean_kl_error = mean.nats_error.value_or(0);
  std::vector<double> sorted = kl_;
  std::sort(sorted.begin(), sorted.end());
  const auto at = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(sorted.size())));
  result.p99_kl = sorted[std::max<size_t>(at, 1) - 1];
  result.largest_kl = sorted.back();
  result.top_agreement = static_cast<double>(n_agreed_) / static_cast<double>(kl_.size());
  return result;
}

}  // namespace soli::cli
