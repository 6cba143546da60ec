#include "cli/divergence.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "engine/sampler.h"
#include "io/file_writer.h"

namespace soli::cli {

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
      samples_{.kl = {}, .by_window = std::vector<WindowLoss>(plan.windows.size())} {
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
  samples_.kl.push_back(kl);
  samples_.by_window[window].nats += kl;
  samples_.by_window[window].n_tokens += 1;
  samples_.n_identical += std::memcmp(reference_.data(), logits.data(), logits.size_bytes()) == 0 ? 1 : 0;
  samples_.n_agreed += argmax(reference_) == argmax(logits) ? 1 : 0;
  return {};
}

DivergenceSamples DivergenceMeter::take_samples() {
  DivergenceSamples taken = {.kl = {}, .by_window = std::vector<WindowLoss>(samples_.by_window.size())};
  std::swap(taken, samples_);
  return taken;
}

DivergenceSamples& DivergenceSamples::operator+=(const DivergenceSamples& other) {
  kl.insert(kl.end(), other.kl.begin(), other.kl.end());
  by_window.insert(by_window.end(), other.by_window.begin(), other.by_window.end());
  n_agreed += other.n_agreed;
  n_identical += other.n_identical;
  return *this;
}

Divergence DivergenceSamples::summarise() const {
  Divergence result = {.n_positions = static_cast<int64_t>(kl.size())};
  if (kl.empty()) return result;
  std::vector<WindowLoss> windows = by_window;
  std::erase_if(windows, [](const WindowLoss& window) { return window.n_tokens == 0; });
  const Perplexity mean = combine(windows);  // the same mean over windows, and its error
  result.mean_kl = mean.nats_per_token;
  result.mean_kl_error = mean.nats_error.value_or(0);
  std::vector<double> sorted = kl;
  std::sort(sorted.begin(), sorted.end());
  const auto at = static_cast<size_t>(std::ceil(0.99 * static_cast<double>(sorted.size())));
  result.p99_kl = sorted[std::max<size_t>(at, 1) - 1];
  result.largest_kl = sorted.back();
  result.top_agreement = static_cast<double>(n_agreed) / static_cast<double>(kl.size());
  return result;
}

}  // namespace soli::cli
