#include "serve/dashboard/dashboard.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "serve/dashboard/heat_json.h"
#include "serve/dashboard/request_json.h"
#include "serve/dashboard/state_json.h"
#include "serve/dashboard/tagged_response.h"
#include "serve/json_response.h"
#include "serve/routes.h"

namespace soli::serve {
namespace {

using openai::ApiResult;
using openai::Json;

constexpr std::chrono::milliseconds kCountGap{1000};
constexpr int64_t kMinuteMs = 60'000;
constexpr int64_t kLinesPerMinute = 10;
constexpr int64_t kAnyTime = INT64_MAX;

int64_t system_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// The number of figures is that of any server: histograms have the same buckets everywhere.
HeatHistory::Options history_options(const DashboardOptions& options, const ModelSpec& spec,
                                     size_t n_figures) {
  HeatHistory::Options history{.n_layers = spec.n_moe_layers(),
                               .n_experts = spec.is_moe() ? spec.router.n_experts : 0,
                               .n_figures = static_cast<int64_t>(n_figures),
                               .half_life_seconds = options.half_life_seconds};
  history.max_bytes = std::max(options.memory_bytes / 2, HeatHistory::min_bytes(history));
  return history;
}

std::vector<int64_t> layers_with_experts(const ModelSpec& spec) {
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer < spec.n_layers; ++layer) {
    if (spec.is_moe_layer(layer)) layers.push_back(layer);
  }
  return layers;
}

/// Puts the time in front, which counts for no tag: it changes where nothing else does.
HttpResponse figures_response(const HttpRequest& request, const std::string& time, const std::string& body) {
  const std::string tag = tag_of(body);
  HttpResponse response =
      tagged_response(request, tag, fmt::format("{{{},{}", time, std::string_view(body).substr(1)));
  response.headers.push_back({"Content-Type", "application/json"});
  response.headers.push_back({"Cache-Control", "private, no-cache"});
  response.headers.push_back({"Vary", "Authorization"});
  return response;
}

std::vector<std::string_view> parameters_of(RouteId route) {
  switch (route) {
    case RouteId::kDashboardSeries:
      return {"tier", "since", "by_layer"};
    case RouteId::kDashboardHeat:
      return {"tier", "from", "to"};
    case RouteId::kDashboardRequest:
      return {"since"};
    default:
      return {};
  }
}

}  // namespace

Status Dashboard::check(const DashboardOptions& options, const ModelSpec& spec) {
  const size_t n_figures = WindowFigureCounter(Metrics("").latencies()).n_figures();
  const int64_t needed = history_options(options, spec, n_figures).max_bytes;
  if (needed <= options.memory_bytes) return {};
  return fail(ErrorKind::kLimit,
              "--dashboard-memory {}: {} experts in each of {} layers need {} bytes for the fewest windows; "
              "--no-dashboard needs none",
              options.memory_bytes, spec.router.n_experts, spec.n_moe_layers(), needed);
}

Dashboard::Dashboard(const DashboardOptions& options, const Metrics& metrics,
                     std::function<void(std::string)> tell)
    : options_(options),
      metrics_(metrics),
      tell_(std::move(tell)),
      made_ms_(system_ms()),
      made_(std::chrono::steady_clock::now()) {
  // Before the engine's thread may be bound to a processor, which threads that it starts would share.
  if (options_.counts_itself) thread_ = std::thread([this] { work(); });
}

int64_t Dashboard::now_ms() const {
  return made_ms_ +
         std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - made_)
             .count();
}

void Dashboard::start(const ModelBackend& backend) {
  backend_ = backend;
  const ModelSpec& spec = *backend.model->spec;
  SOLI_CHECK(!spec.is_moe() || backend.meter != nullptr, "nobody counts the calls of experts");
  layers_ = layers_with_experts(spec);
  has_cache_ = backend.figures().cache.has_value();
  started_ms_ = now_ms();
  const std::lock_guard lock(mutex_);
  counter_ = std::make_unique<WindowFigureCounter>(metrics_.latencies());
  HeatHistory::Options history = history_options(options_, spec, counter_->n_figures());
  history.start_ms = started_ms_;
  history_ = std::make_unique<HeatHistory>(history);
  totals_.resize(layers_.size() * static_cast<size_t>(history.n_experts));
  if (spec.is_moe() && has_alarms()) {
    alarms_ =
        std::make_unique<HeatAlarms>(HeatAlarms::Options{.n_layers = history.n_layers,
                                                         .n_experts = history.n_experts,
                                                         .experts_per_token = spec.router.experts_per_token,
                                                         .factor = options_.hot_expert});
  }
  if (options_.max_requests > 0) {
    traces_ =
        std::make_shared<RequestTraces>(options_.max_requests, options_.memory_bytes - history.max_bytes);
  }
  is_started_ = true;
}

void Dashboard::stop() {
  {
    const std::lock_guard lock(stop_mutex_);
    stopped_ = true;
  }
  stop_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Dashboard::work() {
  // At whole seconds, so that each count falls into a window of its own.
  const auto until_next_second = [this] {
    return kCountGap - std::chrono::milliseconds(now_ms()) % kCountGap;
  };
  std::unique_lock lock(stop_mutex_);
  while (!stop_changed_.wait_for(lock, until_next_second(), [this] { return stopped_; })) {
    lock.unlock();
    if (is_started_) count(now_ms());
    lock.lock();
  }
}

void Dashboard::read_totals() {
  if (backend_.meter == nullptr) return;
  size_t cell = 0;
  for (const int64_t layer : layers_) {
    for (int64_t expert = 0; expert < history_->options().n_experts; ++expert)
      totals_[cell++] = backend_.meter->read(layer, expert);
  }
}

void Dashboard::count(int64_t time_ms) {
  const ModelFigures figures = backend_.figures();
  const std::lock_guard lock(mutex_);
  read_totals();
  double busy_seconds = 0;
  for (const ExpertWork& work : totals_) busy_seconds += static_cast<double>(work.busy_ns) * 1e-9;
  const int64_t n_open = alarms_ == nullptr ? 0 : alarms_->n_open();
  history_->add(time_ms, totals_, counter_->take(figures, metrics_.latencies(), busy_seconds, n_open));
  if (alarms_ == nullptr) return;
  tell_changes(time_ms, alarms_->update(time_ms, history_->heat()));
  n_open_ = alarms_->n_open();
  n_raised_ = alarms_->n_raised();
}

/// A line each, and some at most: where the load turns, many alarms open and close at once.
void Dashboard::tell_changes(int64_t time_ms, const std::vector<HeatAlarm>& changes) {
  if (time_ms / kMinuteMs != lines_minute_) {
    lines_minute_ = time_ms / kMinuteMs;
    n_lines_ = 0;
  }
  for (const HeatAlarm& alarm : changes) {
    if (++n_lines_ > kLinesPerMinute) return;
    const int64_t layer = layers_[static_cast<size_t>(alarm.layer)];
    if (n_lines_ == kLinesPerMinute) {
      tell_("hot experts: further changes of this minute are not told; see /api/v1/dashboard/alarms");
    } else if (alarm.until_ms) {
      tell_(fmt::format(
          "hot expert: {} of layer {} is so no longer, after {:.0f} s; at most {:.1f} % of the calls",
          alarm.expert, layer, static_cast<double>(*alarm.until_ms - alarm.since_ms) * 1e-3,
          alarm.peak_share * 100));
    } else {
      tell_(fmt::format(
          "hot expert: {} of layer {} has {:.1f} % of the calls of late, where {:.1f} % would be fair",
          alarm.expert, layer, alarm.share * 100, alarms_->fair_share() * 100));
    }
  }
}

HotExpertFigures Dashboard::hot_experts() const { return {.open = n_open_, .raised = n_raised_}; }

HttpResponse Dashboard::answer(RouteId route, const HttpRequest& request, std::optional<size_t> key) const {
  const ApiResult<std::string> body = body_of(route, request, key);
  if (!body) return error_response(body.error());
  const int64_t now = now_ms();
  std::string time = fmt::format("\"now\":{}", now);
  if (route == RouteId::kDashboardState)
    time += fmt::format(",\"uptime_seconds\":{}", static_cast<double>(now - started_ms_) * 1e-3);
  return figures_response(request, time, *body);
}

ApiResult<std::string> Dashboard::body_of(RouteId route, const HttpRequest& request,
                                          std::optional<size_t> key) const {
  SOLI_API_ASSIGN_OR_RETURN(const Query query, Query::parse(request.query, parameters_of(route)));
  switch (route) {
    case RouteId::kDashboardState:
      return openai::to_text(state_json());
    case RouteId::kDashboardRequests:
      return openai::to_text(requests_json(key));
    case RouteId::kDashboardRequest:
      return request_text(request, query, key);
    default: {
      SOLI_API_ASSIGN_OR_RETURN(const Json json, figures_of(route, query));
      return openai::to_text(json);
    }
  }
}

ApiResult<Json> Dashboard::figures_of(RouteId route, const Query& query) const {
  const std::lock_guard lock(mutex_);
  const HeatView view{*history_, alarms_.get(), layers_};
  if (route == RouteId::kDashboardExperts) return experts_json(view);
  if (route == RouteId::kDashboardAlarms) return alarms_json(view);
  SOLI_API_ASSIGN_OR_RETURN(const size_t tier, query.tier());
  if (route == RouteId::kDashboardSeries) {
    SeriesQuery series{.tier = tier, .has_cache = has_cache_};
    SOLI_API_ASSIGN_OR_RETURN(series.since_ms, query.integer("since", 0));
    SOLI_API_ASSIGN_OR_RETURN(series.by_layer, query.boolean("by_layer", false));
    return series_json(view, *counter_, series);
  }
  SOLI_API_ASSIGN_OR_RETURN(const int64_t from, query.integer("from", 0));
  SOLI_API_ASSIGN_OR_RETURN(const int64_t to, query.integer("to", kAnyTime));
  if (to < from) {
    return tl::unexpected(openai::bad_request(
        "invalid_value", "to", "'to' is {}; allowed is a time that is not before 'from', {}", to, from));
  }
  return heat_json(view, tier, from, to);
}

Json Dashboard::state_json() const {
  StateFigures state{
      .model = *backend_.model, .started_ms = started_ms_, .model_figures = backend_.figures()};
  state.requests = {{"max", options_.max_requests},
                    {"routing", options_.all_routing ? "all" : "asked"},
                    {"max_bytes", traces_ == nullptr ? 0 : traces_->max_bytes()},
                    {"bytes", traces_ == nullptr ? 0 : traces_->bytes()}};
  const std::lock_guard lock(mutex_);
  return serve::state_json(state, {*history_, alarms_.get(), layers_});
}

Json Dashboard::requests_json(std::optional<size_t> key) const {
  Json requests = Json::array();
  if (traces_ != nullptr) {
    for (const TracedSummary& request : traces_->list(key)) requests.push_back(request_json(request));
  }
  return {{"requests", std::move(requests)}};
}

ApiResult<std::string> Dashboard::request_text(const HttpRequest& request, const Query& query,
                                               std::optional<size_t> key) const {
  SOLI_API_ASSIGN_OR_RETURN(const int64_t since, query.integer("since", 0));
  const std::string_view pattern = route_of(RouteId::kDashboardRequest).path;
  const std::string_view id = std::string_view(request.path).substr(pattern.find('{'));
  if (traces_ != nullptr) {
    if (const auto found = traces_->find(std::string(id), key))
      return request_tokens_text(*found, layers_, *backend_.model->tokenizer, since);
  }
  return tl::unexpected(openai::ApiError{404, openai::kInvalidRequest, "request_not_found", "",
                                         fmt::format("no request '{}' is remembered", printable(id, 100))});
}

void Dashboard::prepare(openai::TextJob& job) const {
  if (traces_ != nullptr && options_.all_routing && backend_.model->spec->is_moe())
    job.requests.front().want_routing = true;
}

std::shared_ptr<RequestTrace> Dashboard::begin(const openai::TextJob& job, const std::string& id,
                                               RouteId route, std::optional<size_t> key) const {
  if (traces_ == nullptr) return nullptr;
  TracedRequest request = traced_request(job, backend_.model->exact);
  request.id = id;
  request.path = route_of(route).path;
  request.key = key;
  request.started_ms = now_ms();
  return std::make_shared<RequestTrace>(traces_, traces_->begin(std::move(request)));
}

}  // namespace soli::serve
