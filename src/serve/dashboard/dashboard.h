#pragma once

// What /dashboard and /api/v1/dashboard/... tell (docs/dashboard.md).

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "model/spec.h"
#include "observe/heat_alarms.h"
#include "observe/heat_history.h"
#include "serve/dashboard/query.h"
#include "serve/dashboard/request_traces.h"
#include "serve/dashboard/window_figures.h"
#include "serve/http.h"
#include "serve/metrics.h"
#include "serve/model_backend.h"

namespace soli::serve {

struct DashboardOptions {
  int64_t memory_bytes = int64_t{16} << 20;  // half for windows, half for tokens of requests
  int64_t max_requests = 16;                 // that are remembered
  bool all_routing = false;  // tokens of all requests, and not only of those that ask for routing
  double half_life_seconds = 60;
  double hot_expert = 4;      // times the fair share; 0: no alarms
  bool counts_itself = true;  // once a second, on a thread of its own; else by count()
};

/// Counts once a second what a model does, and answers what is asked about it. Thread-safe; answers take some
/// milliseconds at most and belong on a worker. The engine's thread has no part in it.
class Dashboard {
 public:
  /// Fails with kLimit where memory_bytes has no room for the fewest windows of such a model.
  static Status check(const DashboardOptions& options, const ModelSpec& spec);

  /// `metrics` is borrowed. `tell` gets a line of text where an alarm opens or closes; any thread.
  Dashboard(const DashboardOptions& options, const Metrics& metrics, std::function<void(std::string)> tell);
  ~Dashboard() { stop(); }

  /// The model is there, and its meter counts. Once; check() holds.
  void start(const ModelBackend& backend);
  /// Ends the thread that counts.
  void stop();
  /// Milliseconds since 1970 by a steady clock that began at the system's time.
  int64_t now_ms() const;
  /// Counts what has happened since the last time. Not before that time.
  void count(int64_t time_ms);

  /// After start(). `key`: that the request came with.
  HttpResponse answer(RouteId route, const HttpRequest& request, std::optional<size_t> key) const;
  /// At any time; waits for nobody.
  HotExpertFigures hot_experts() const;
  bool has_alarms() const { return options_.hot_expert > 0; }

  /// Asks for what the dashboard wants to see of a request, before it goes to the engine.
  void prepare(openai::TextJob& job) const;
  /// A request that the engine has taken. Null where none is remembered.
  std::shared_ptr<RequestTrace> begin(const openai::TextJob& job, const std::string& id, RouteId route,
                                      std::optional<size_t> key) const;

 private:
  void work();
  void read_totals();
  void tell_changes(int64_t time_ms, const std::vector<HeatAlarm>& changes);
  openai::ApiResult<std::string> body_of(RouteId route, const HttpRequest& request,
                                         std::optional<size_t> key) const;
  openai::ApiResult<openai::Json> figures_of(RouteId route, const Query& query) const;
  openai::Json state_json() const;
  openai::Json requests_json(std::optional<size_t> key) const;
  openai::ApiResult<std::string> request_text(const HttpRequest& request, const Query& query,
                                              std::optional<size_t> key) const;

  const DashboardOptions options_;
  const Metrics& metrics_;
  const std::function<void(std::string)> tell_;
  const int64_t made_ms_;                             // by the system's clock
  const std::chrono::steady_clock::time_point made_;  // the same moment
  std::shared_ptr<RequestTraces> traces_;             // null: none are remembered
  ModelBackend backend_;                              // written by start()
  std::vector<int64_t> layers_;                       // with experts, among all layers
  bool has_cache_ = false;
  int64_t started_ms_ = 0;
  mutable std::mutex mutex_;  // of what count() changes
  std::unique_ptr<HeatHistory> history_;
  std::unique_ptr<HeatAlarms> alarms_;  // null: there are none
  std::unique_ptr<WindowFigureCounter> counter_;
  std::vector<ExpertWork> totals_;  // [layer with experts][expert]
  int64_t lines_minute_ = 0;        // in which n_lines_ were told
  int64_t n_lines_ = 0;
  std::atomic<int64_t> n_open_ = 0;
  std::atomic<int64_t> n_raised_ = 0;
  std::atomic<bool> is_started_ = false;
  std::mutex stop_mutex_;
  std::condition_variable stop_changed_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace soli::serve
