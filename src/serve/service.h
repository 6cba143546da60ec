#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "serve/access_log.h"
#include "serve/api_keys.h"
#include "serve/dashboard/dashboard.h"
#include "serve/generation.h"
#include "serve/http_server.h"
#include "serve/metrics.h"
#include "serve/routes.h"
#include "serve/worker_pool.h"

namespace soli::serve {

struct ServiceOptions {
  std::string model_id;
  ApiKeys keys = {};                // none: everybody may ask
  std::string cors_origin = {};     // pages of this origin may read answers; "*": all; "": none
  double slow_request_seconds = 0;  // requests that take longer are told of; 0: none
  size_t n_workers = 2;             // threads that translate
  size_t max_tasks = 256;           // that wait for them
  std::optional<DashboardOptions> dashboard = {};  // absent: there is none
};

/// Answers: checks keys, translates bodies, hands requests to the engine and what comes back to the client.
/// Until there is a model, what needs one gets 503.
class Service final : public HttpHandler {
 public:
  /// `log` is borrowed; null: no access log, and failures are told of on standard error.
  Service(ServiceOptions options, AccessLog* log);
  ~Service() override { stop(); }

  /// Whose figures /metrics shows. Before the first scrape; null takes it back.
  void set_server(const HttpServer* server) { server_ = server; }
  /// How much of the model is loaded, 0 to 1.
  void show_progress(double share) { progress_ = share; }
  /// The model is there. Once.
  void set_backend(ModelBackend backend);

  /// From here on, new work is refused with 503.
  void begin_drain() { draining_ = true; }
  /// Waits until no request for work is left. False where that takes longer.
  bool wait_until_idle(std::chrono::milliseconds timeout);
  int64_t n_active() const;
  /// Ends the workers and what counts for the dashboard. After HttpServer::stop().
  void stop();
  /// Null where there is none.
  Dashboard* dashboard() { return dashboard_.get(); }

  std::optional<HttpResponse> on_head(HttpRequest& request) override;
  void on_request(HttpRequest request, std::shared_ptr<Responder> responder) override;
  HttpResponse refusal(int status, const std::string& message) override;
  HttpResponse farewell() override;
  void on_done(const HttpRecord& record) override;

 private:
  std::optional<HttpResponse> check_key(const HttpRequest& request, RequestContext& context) const;
  std::optional<HttpResponse> check_state(const Route& route) const;
  HttpResponse answer_options(const Route* route, const RequestContext& context) const;
  HttpResponse answer_directly(RouteId route, const HttpRequest& request) const;
  HttpResponse answer_health(bool asks_for_ready) const;
  HttpResponse answer_metrics() const;
  const Route* find_served_route(std::string_view path) const;
  void translate(const HttpRequest& request, std::shared_ptr<Responder> responder);
  void start_text(HttpRequest& request, std::shared_ptr<RequestContext> context,
                  std::shared_ptr<Responder> responder);
  void start_embedding(HttpRequest& request, std::shared_ptr<RequestContext> context,
                       std::shared_ptr<Responder> responder);
  void run_on_workers(std::function<void()> task);
  openai::Caller caller_of(const RequestContext& context) const;
  void stamp(std::vector<Request>& requests, const RequestContext& context) const;
  bool may_read(const HttpRequest& request) const;

  const ServiceOptions options_;
  AccessLog* const log_;
  std::unique_ptr<AccessLog> notes_;  // to standard error, which may stand still too
  mutable Metrics metrics_;
  std::unique_ptr<Dashboard> dashboard_;
  std::atomic<const HttpServer*> server_ = nullptr;
  ModelBackend backend_;  // written before loaded_ is set
  std::atomic<bool> loaded_ = false;
  std::atomic<bool> draining_ = false;
  std::atomic<double> progress_ = 0;
  mutable std::mutex active_mutex_;
  std::condition_variable idle_;
  int64_t n_active_ = 0;  // requests for work, from their heads to the ends of their answers
  WorkerPool workers_;
};

}  // namespace soli::serve
