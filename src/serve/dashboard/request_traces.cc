#include "serve/dashboard/request_traces.h"

#include <algorithm>
#include <utility>

#include "model/policy_text.h"

namespace soli::serve {
namespace {

/// What a request takes without its tokens.
int64_t bytes_of_request(const TracedRequest& request) {
  const size_t texts = request.id.size() + (request.policy ? request.policy->size() : 0);
  return static_cast<int64_t>(sizeof(TracedRequest) + texts + request.prompt.size() * sizeof(int32_t));
}

}  // namespace

int64_t RequestTraces::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

uint64_t RequestTraces::begin(TracedRequest request) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = ++n_begun_;
  int64_t bytes = bytes_of_request(request);
  if (bytes > max_bytes_ / 4 && request.has_tokens) {  // of a prompt that is too long
    request.n_dropped += static_cast<int64_t>(request.prompt.size());
    request.prompt = {};
    request.n_tokens = 0;
    request.has_tokens = false;
    bytes = bytes_of_request(request);
  }
  while (!entries_.empty() &&
         (static_cast<int64_t>(entries_.size()) >= max_requests_ || bytes_ + bytes > max_bytes_)) {
    bytes_ -= entries_.front()->bytes;
    entries_.pop_front();
  }
  bytes_ += bytes;
  entries_.push_back(std::make_unique<Entry>(Entry{number, bytes, std::move(request)}));
  return number;
}

/// The latest are most often asked for.
RequestTraces::Entry* RequestTraces::entry_of(uint64_t number) {
  const auto found = std::find_if(entries_.rbegin(), entries_.rend(),
                                  [number](const auto& entry) { return entry->number == number; });
  return found == entries_.rend() ? nullptr : found->get();
}

void RequestTraces::add(uint64_t number, size_t choice, const StreamEvent& event) {
  const std::lock_guard lock(mutex_);
  Entry* const entry = entry_of(number);
  if (entry == nullptr) return;
  TracedRequest& request = entry->request;
  request.has_begun = true;
  const bool is_token = event.kind == StreamEvent::Kind::kToken;
  if (is_token) ++request.n_generated;
  if (choice != 0 || !request.has_tokens) return;
  // The last token of the prompt comes twice, since its routing comes with the first generated one too.
  if (event.routing && event.routing->position == request.n_routed) add_routing(*entry, *event.routing);
  if (!is_token) return;
  if (request.n_dropped == 0 && take_room(*entry, sizeof(int32_t))) {
    request.generated.push_back(event.token);
    ++request.n_tokens;
  } else {
    ++request.n_dropped;
  }
}

/// Room for the tokens of one request, at the cost of older ones. False: it has had its part.
bool RequestTraces::take_room(Entry& entry, int64_t bytes) {
  if (entry.bytes + bytes > max_bytes_ / 4) return false;
  while (bytes_ + bytes > max_bytes_) {
    const bool is_oldest = entries_.front().get() == &entry;
    const auto oldest = entries_.begin() + (is_oldest ? 1 : 0);
    if (oldest == entries_.end()) return false;
    bytes_ -= (*oldest)->bytes;
    entries_.erase(oldest);
  }
  entry.bytes += bytes;
  bytes_ += bytes;
  return true;
}

void RequestTraces::add_routing(Entry& entry, const TokenRouting& routing) {
  TracedRequest& request = entry.request;
  const size_t n_calls = routing.ids.size();
  const auto bytes = static_cast<int64_t>(static_cast<size_t>(routing.n_layers()) * sizeof(uint16_t) +
                                          n_calls * (sizeof(uint16_t) + sizeof(float)));
  // Of a token whose routing has no room, the next one's finds none either: positions stay without gaps.
  if (!take_room(entry, bytes)) return;
  for (int64_t layer = 0; layer < routing.n_layers(); ++layer)
    request.layer_calls.push_back(static_cast<uint16_t>(routing.ids_of(layer).size()));
  request.ids.insert(request.ids.end(), routing.ids.begin(), routing.ids.end());
  request.weights.insert(request.weights.end(), routing.weights.begin(), routing.weights.end());
  ++request.n_routed;
}

void RequestTraces::finish(uint64_t number, const RequestUse& use) {
  const std::lock_guard lock(mutex_);
  Entry* const entry = entry_of(number);
  if (entry == nullptr || entry->request.use) return;
  entry->request.use = use;
  // Its client was gone before any choice had ended.
  if (!use.outcome) entry->request.use->outcome = Outcome::kAbort;
}

std::vector<TracedSummary> RequestTraces::list(std::optional<size_t> key) const {
  const std::lock_guard lock(mutex_);
  std::vector<TracedSummary> found;
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if ((*entry)->request.key == key) found.push_back((*entry)->request);
  }
  return found;
}

std::optional<TracedRequest> RequestTraces::find(const std::string& id, std::optional<size_t> key) const {
  const std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) {
    if (entry->request.id == id && entry->request.key == key) return entry->request;
  }
  return {};
}

TracedRequest traced_request(const openai::TextJob& job, bool model_is_exact) {
  const Request& first = job.requests.front();
  TracedRequest request;
  request.stream = job.stream;
  request.exact = model_is_exact && first.policy.is_exact();
  request.n_choices = static_cast<int64_t>(job.requests.size());
  request.experts_per_token = job.experts_per_token;
  std::string policy = policy_json(first.policy).dump();
  if (static_cast<int64_t>(policy.size()) <= RequestTraces::kMaxPolicyBytes)
    request.policy = std::move(policy);
  for (size_t i = 0; i < job.requests.size(); i += static_cast<size_t>(job.n))
    request.n_prompt += static_cast<int64_t>(job.requests[i].prompt.size());
  request.has_tokens = first.want_routing;
  if (request.has_tokens) request.prompt = first.prompt;
  request.n_tokens = static_cast<int64_t>(request.prompt.size());
  return request;
}

}  // namespace soli::serve
