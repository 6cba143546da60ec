#include "cli/profile_run.h"

#include <deque>
#include <memory>

#include "base/rng.h"
#include "base/utf8.h"
#include "observe/profile_collector.h"

namespace soli::cli {
namespace {

struct WindowNumber {
  size_t domain = 0;
  size_t window = 0;
};

struct ProfiledWindow {
  WindowNumber number;
  std::shared_ptr<Stream> stream;
  std::unique_ptr<RoutingWindow> routing;
  bool finished = false;
};

uint64_t hash_of(const WindowPlan& plan) {
  uint64_t hash = hash_u64(plan.windows.size());
  for (const std::vector<int32_t>& window : plan.windows) {
    hash = hash_u64(hash ^ window.size());
    for (const int32_t token : window) hash = hash_u64(hash ^ static_cast<uint64_t>(token));
  }
  return hash;
}

uint64_t hash_of(const std::string& name) {
  uint64_t hash = 0;
  for (const char c : name) hash = hash_u64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

std::vector<WindowNumber> windows_to_read(const std::vector<EvalText>& texts, const RoutingProfile& profile) {
  std::vector<WindowNumber> numbers;
  size_t most = 0;
  for (const EvalText& text : texts) most = std::max(most, text.plan.windows.size());
  for (size_t window = 0; window < most; ++window) {
    for (size_t d = 0; d < texts.size(); ++d) {
      const auto done = static_cast<size_t>(profile.domains[d].n_windows);
      if (window >= done && window < texts[d].plan.windows.size()) numbers.push_back({d, window});
    }
  }
  return numbers;
}

/// Reads windows, some at a time.
class ProfileLoop {
 public:
  ProfileLoop(Engine& engine, const std::vector<EvalText>& texts, const ProfileRun& run,
              RoutingProfile& profile)
      : engine_(engine),
        texts_(texts),
        run_(run),
        profile_(profile),
        numbers_(windows_to_read(texts, profile)),
        collector_(profile.shape) {
    for (const WindowNumber& number : numbers_) n_tokens_ += n_tokens_of(number);
    engine_.set_hooks({.observer = &collector_});
  }
  ~ProfileLoop() {
    for (const ProfiledWindow& window : running_) window.stream->close();
    if (!running_.empty()) engine_.step();  // which frees them
    engine_.set_hooks({});
  }

  Result<bool> run() {
    while (next_ < numbers_.size() || !running_.empty()) {
      SOLI_RETURN_IF_ERROR(submit());
      if (!engine_.step()) return fail(ErrorKind::kLimit, "--memory: no room is left for keys and values");
      SOLI_RETURN_IF_ERROR(look_at_streams());
      count_finished();
      if (run_.on_progress && !run_.on_progress(n_counted_, n_tokens_)) return n_counted_ == n_tokens_;
    }
    return true;
  }

 private:
  const std::vector<int32_t>& tokens_of(const WindowNumber& number) const {
    return texts_[number.domain].plan.windows[number.window];
  }
  int64_t n_tokens_of(const WindowNumber& number) const {
    return static_cast<int64_t>(tokens_of(number).size()) - (run_.texts_begin_with_bos ? 1 : 0);
  }

  Status submit() {
    while (next_ < numbers_.size() && static_cast<int64_t>(running_.size()) < run_.n_parallel) {
      const WindowNumber number = numbers_[next_++];
      Request request;
      request.prompt = tokens_of(number);
      request.max_new_tokens = 0;
      request.policy = run_.policy;
      request.use_prefix_cache = false;  // whose tokens nobody routes again
      SOLI_ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, engine_.submit(std::move(request)));
      const uint64_t key = hash_u64(hash_of(texts_[number.domain].name) ^ hash_u64(number.window));
      running_.push_back({number, std::move(stream), std::make_unique<RoutingWindow>(profile_.shape, key)});
      collector_.begin(running_.back().stream->id(), *running_.back().routing,
                       run_.texts_begin_with_bos ? 1 : 0);
    }
    return {};
  }

  Status look_at_streams() {
    for (ProfiledWindow& window : running_) {
      while (std::optional<StreamEvent> event = window.stream->try_pop()) {
        if (event->kind != StreamEvent::Kind::kFinished) continue;
        if (event->error) {
          return in_context(
              fmt::format("{}, window {}", texts_[window.number.domain].name, window.number.window),
              *std::move(event->error));
        }
        window.finished = true;
        collector_.end(window.stream->id());
      }
    }
    return {};
  }

  /// Those that ended before an earlier one wait for it.
  void count_finished() {
    while (!running_.empty() && running_.front().finished) {
      ProfiledWindow& window = running_.front();
      std::move(*window.routing).merge_into(profile_.domains[window.number.domain]);
      n_counted_ += n_tokens_of(window.number);
      if (run_.windows != nullptr) {
        run_.windows->push_back({.request = window.stream->id(),
                                 .domain = profile_.domains[window.number.domain].name,
                                 .number = static_cast<int64_t>(window.number.window),
                                 .first_position = run_.texts_begin_with_bos ? 1 : 0});
      }
      running_.pop_front();
    }
  }

  Engine& engine_;
  const std::vector<EvalText>& texts_;
  const ProfileRun& run_;
  RoutingProfile& profile_;
  const std::vector<WindowNumber> numbers_;
  ProfileCollector collector_;
  std::deque<ProfiledWindow> running_;
  size_t next_ = 0;
  int64_t n_counted_ = 0;
  int64_t n_tokens_ = 0;
};

}  // namespace

RoutingProfile empty_profile(const ModelSpec& spec, const std::vector<EvalText>& texts) {
  RoutingProfile profile;
  profile.model = printable(spec.name.empty() ? spec.architecture : spec.name);
  profile.experts_per_token = spec.router.experts_per_token;
  profile.shape = ProfileShape::of(spec, static_cast<int64_t>(texts.size()));
  for (const EvalText& text : texts) {
    profile.domains.emplace_back(replace_invalid_utf8(text.name), profile.shape);
    profile.domains.back().text_hash = hash_of(text.plan);
  }
  return profile;
}

Status check_can_resume(const RoutingProfile& saved, const RoutingProfile& fresh) {
  const auto differs = [](const char* what, const auto& is, const auto& allowed) {
    return fail(ErrorKind::kInvalidArgument, "{}: {} is not allowed; {}, as this run has it", what, is,
                allowed);
  };
  if (saved.model != fresh.model) return differs("model", printable(saved.model), fresh.model);
  if (saved.policy != fresh.policy) return differs("policy", printable(saved.policy), fresh.policy);
  if (saved.window != fresh.window) return differs("window", saved.window, fresh.window);
  if (saved.max_tokens != fresh.max_tokens) return differs("max_tokens", saved.max_tokens, fresh.max_tokens);
  if (!(saved.shape == fresh.shape)) {
    return differs("layers",
                   fmt::format("{} of {} experts", saved.shape.layers.size(), saved.shape.n_experts),
                   fmt::format("{} of {} experts", fresh.shape.layers.size(), fresh.shape.n_experts));
  }
  if (saved.domains.size() != fresh.domains.size())
    return differs("domains", saved.domains.size(), fresh.domains.size());
  for (size_t d = 0; d < saved.domains.size(); ++d) {
    const DomainCounts& a = saved.domains[d];
    const DomainCounts& b = fresh.domains[d];
    if (a.name != b.name) return differs("domain", printable(a.name), printable(b.name));
    if (a.text_hash != b.text_hash)
      return fail(ErrorKind::kInvalidArgument, "domain {}: is of another text", printable(a.name));
  }
  return {};
}

Result<bool> run_profile_windows(Engine& engine, const std::vector<EvalText>& texts, const ProfileRun& run,
                                 RoutingProfile& profile) {
  return ProfileLoop(engine, texts, run, profile).run();
}

}  // namespace soli::cli
