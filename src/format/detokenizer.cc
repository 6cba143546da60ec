#include "format/detokenizer.h"

#include <algorithm>
#include <utility>

#include "base/utf8.h"

namespace soli {

std::string Detokenizer::push(int32_t id) {
  std::string_view piece = tokenizer_->piece(id, options_.render_special);
  if (piece.empty()) return "";
  if (at_start_ && tokenizer_->adds_space_prefix() && piece.front() == ' ') piece.remove_prefix(1);
  at_start_ = false;
  held_.append(piece);
  std::string chunk;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Unit unit = utf8_front(rest);
    if (unit.incomplete) break;
    if (unit.valid) {
      chunk.append(rest.substr(0, unit.bytes));
    } else {
      append_utf8(chunk, unit.code_point);
    }
    rest.remove_prefix(unit.bytes);
  }
  held_ = std::string(rest);
  return chunk;
}

std::string Detokenizer::flush() {
  std::string chunk = replace_invalid_utf8(held_);
  held_.clear();
  return chunk;
}

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& stop : stops) {
    if (stop.empty()) continue;
    std::vector<uint32_t> failure(stop.size(), 0);
    for (size_t i = 1; i < stop.size(); ++i) {
      uint32_t k = failure[i - 1];
      while (k > 0 && stop[k] != stop[i]) k = failure[k - 1];
      failure[i] = k + (stop[k] == stop[i]);
    }
    failure_.push_back(std::move(failure));
    stops_.push_back(std::move(stop));
  }
  state_.assign(stops_.size(), 0);
}

std::string StopMatcher::push(std::string_view chunk) {
  if (stopped()) return "";
  for (const char byte : chunk) {
    held_.push_back(byte);
    for (size_t s = 0; s < stops_.size(); ++s) {
      uint32_t k = state_[s];
      while (k > 0 && stops_[s][k] != byte) k = failure_[s][k - 1];
      state_[s] = k + (stops_[s][k] == byte);
      if (state_[s] < stops_[s].size()) continue;
      if (!stopped() || stops_[s].size() > stops_[static_cast<size_t>(matched_)].size()) {
        matched_ = static_cast<int>(s);
      }
    }
    if (stopped()) {
      held_.resize(held_.size() - stops_[static_cast<size_t>(matched_)].size());
      return std::exchange(held_, {});
    }
  }
  const uint32_t keep = state_.empty() ? 0 : *std::max_element(state_.begin(), state_.end());
  std::string sent = held_.substr(0, held_.size() - keep);
  held_.erase(0, sent.size());
  return sent;
}

std::string StopMatcher::flush() {
  std::fill(state_.begin(), state_.end(), 0);
  return std::exchange(held_, {});
}

}  // namespace soli
