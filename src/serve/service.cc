#include "serve/service.h"

#include <random>
#include <utility>

#include "base/utf8.h"
#include "serve/dashboard/page.h"
#include "serve/embedding_run.h"
#include "serve/http_rules.h"
#include "serve/json_response.h"
#include "serve/openai/endpoints.h"

namespace soli::serve {
namespace {

using openai::ApiError;

constexpr std::string_view kModelPrefix = "/v1/models/";

std::shared_ptr<RequestContext> context_of(const HttpRequest& request) {
  return std::static_pointer_cast<RequestContext>(request.context);
}

/// A type as OpenAI names them, for errors of the transport and of the service.
const char* type_of(int status) {
  if (status == 429) return openai::kRateLimit;
  return status >= 500 ? openai::kServerError : openai::kInvalidRequest;
}

ApiError plain_error(int status, std::string code, std::string message) {
  return {status, type_of(status), std::move(code), "", std::move(message)};
}

uint64_t random_seed() {
  thread_local std::mt19937_64 engine{(uint64_t{std::random_device()()} << 32) | std::random_device()()};
  return engine();
}

HttpResponse text_or_error(openai::ApiResult<std::string> body) {
  return body ? json_response(200, *std::move(body)) : error_response(body.error());
}

/// Lays an answer down with what a page in a browser needs to read it.
class CorsResponder final : public Responder {
 public:
  CorsResponder(std::shared_ptr<Responder> inner, std::vector<HttpHeader> headers)
      : inner_(std::move(inner)), headers_(std::move(headers)) {}

  void respond(HttpResponse response) override {
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    inner_->respond(std::move(response));
  }
  bool is_abandoned() const override { return inner_->is_abandoned(); }
  void set_on_abandoned(std::function<void()> callback) override {
    inner_->set_on_abandoned(std::move(callback));
  }
  void post(std::function<void()> task) override { inner_->post(std::move(task)); }

 private:
  const std::shared_ptr<Responder> inner_;
  const std::vector<HttpHeader> headers_;
};

std::vector<HttpHeader> cors_headers(const std::string& origin) {
  return {{"Access-Control-Allow-Origin", origin},
          {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"},
          {"Vary", "Origin"}};
}

}  // namespace

Service::Service(ServiceOptions options, AccessLog* log)
    : options_(std::move(options)),
      log_(log),
      metrics_(options_.model_id),
      workers_(options_.n_workers, options_.max_tasks) {
  // Opening standard error does not fail.
  if (options_.slow_request_seconds > 0 || log_ == nullptr || options_.dashboard)
    notes_ = AccessLog::open("").value();
  if (!options_.dashboard) return;
  dashboard_ = std::make_unique<Dashboard>(
      *options_.dashboard, metrics_, [this](const std::string& line) { notes_->write("soli: " + line); });
}

void Service::stop() {
  workers_.stop();
  if (dashboard_ != nullptr) dashboard_->stop();
}

/// Where there is no dashboard, none of its paths is there.
const Route* Service::find_served_route(std::string_view path) const {
  const Route* const route = find_route(path);
  return route != nullptr && is_of_dashboard(route->id) && dashboard_ == nullptr ? nullptr : route;
}

void Service::set_backend(ModelBackend backend) {
  backend_ = std::move(backend);
  if (dashboard_ != nullptr) dashboard_->start(backend_);
  loaded_ = true;
}

bool Service::wait_until_idle(std::chrono::milliseconds timeout) {
  std::unique_lock lock(active_mutex_);
  return idle_.wait_for(lock, timeout, [&] { return n_active_ == 0; });
}

int64_t Service::n_active() const {
  const std::lock_guard lock(active_mutex_);
  return n_active_;
}

std::optional<HttpResponse> Service::on_head(HttpRequest& request) {
  const auto context = std::make_shared<RequestContext>();
  request.context = context;
  context->allows_origin = may_read(request);
  const auto refuse = [&](HttpResponse response) {
    if (context->allows_origin) {
      for (HttpHeader& header : cors_headers(options_.cors_origin))
        response.headers.push_back(std::move(header));
    }
    return response;
  };
  const Route* const route = find_served_route(request.path);
  if (request.method == "OPTIONS" && (route != nullptr || request.path == "*"))
    return answer_options(route, *context);
  if (route == nullptr) {
    return refuse(
        error_response(plain_error(404, "unknown_url",
                                   fmt::format("{} {}: there is no such path", printable(request.method, 20),
                                               printable(request.path, 100)))));
  }
  context->route = route->id;
  if (!allows_method(*route, request.method)) {
    HttpResponse response = error_response(plain_error(
        405, "method_not_allowed",
        fmt::format("{} {}: {} is allowed", printable(request.method, 20), route->path, route->method)));
    response.headers.push_back({"Allow", allowed_methods(*route)});
    return refuse(std::move(response));
  }
  if (auto response = check_key(request, *context); response && !route->is_open)
    return refuse(*std::move(response));
  if (route->method == "POST") {
    const std::string* const type = request.find_header("content-type");
    if (type == nullptr || !is_json(*type)) {
      return refuse(
          error_response(plain_error(415, "unsupported_media_type",
                                     fmt::format("Content-Type '{}': 'application/json' is expected",
                                                 printable(type ? *type : "", 100)))));
    }
  }
  if (auto response = check_state(*route)) return refuse(*std::move(response));
  context->is_work = route->method == "POST";
  if (context->is_work) {
    const std::lock_guard lock(active_mutex_);
    ++n_active_;
  }
  return {};
}

/// The key goes into the context. An answer where there is none that is known.
std::optional<HttpResponse> Service::check_key(const HttpRequest& request, RequestContext& context) const {
  if (options_.keys.empty()) return {};
  const std::string* const value = request.find_header("authorization");
  const std::optional<std::string_view> token = value ? bearer_token(*value) : std::nullopt;
  if (token) context.key = options_.keys.find(*token);
  if (context.key) {
    context.key_name = options_.keys[*context.key].name;
    return {};
  }
  return error_response(plain_error(
      401, "invalid_api_key",
      token ? "the API key is not known" : "an API key is missing: send 'Authorization: Bearer KEY'"));
}

std::optional<HttpResponse> Service::check_state(const Route& route) const {
  if (route.needs_model && !loaded_)
    return error_response(plain_error(503, "loading", "the model is being loaded; try again"));
  if (route.method == "POST" && draining_) {
    HttpResponse response = error_response(
        plain_error(503, "shutting_down", "the server is ending; try another, or again later"));
    response.close = true;
    return response;
  }
  return {};
}

bool Service::may_read(const HttpRequest& request) const {
  if (options_.cors_origin.empty()) return false;
  const std::string* const origin = request.find_header("origin");
  return origin != nullptr && (options_.cors_origin == "*" || *origin == options_.cors_origin);
}

HttpResponse Service::answer_options(const Route* route, const RequestContext& context) const {
  HttpResponse response;
  response.status = 204;
  const std::string methods = route == nullptr ? "GET, HEAD, POST, OPTIONS" : allowed_methods(*route);
  response.headers.push_back({"Allow", methods});
  if (!context.allows_origin) return response;
  for (HttpHeader& header : cors_headers(options_.cors_origin)) response.headers.push_back(std::move(header));
  response.headers.push_back({"Access-Control-Allow-Methods", methods});
  response.headers.push_back({"Access-Control-Allow-Headers", "Authorization, Content-Type"});
  response.headers.push_back({"Access-Control-Max-Age", "600"});
  return response;
}

void Service::on_request(HttpRequest request, std::shared_ptr<Responder> responder) {
  const std::shared_ptr<RequestContext> context = context_of(request);
  if (context->allows_origin)
    responder = std::make_shared<CorsResponder>(std::move(responder), cors_headers(options_.cors_origin));
  const bool asks_dashboard = is_of_dashboard(context->route) && context->route != RouteId::kDashboard;
  if (!context->is_work && !asks_dashboard) {
    responder->respond(answer_directly(context->route, request));
    return;
  }
  const auto shared = std::make_shared<HttpRequest>(std::move(request));
  const bool accepted = workers_.submit([this, shared, context, responder] {
    if (responder->is_abandoned()) return;
    switch (context->route) {
      case RouteId::kChat:
      case RouteId::kCompletions:
        return start_text(*shared, context, responder);
      case RouteId::kEmbeddings:
        return start_embedding(*shared, context, responder);
      default:
        if (is_of_dashboard(context->route))
          return responder->respond(dashboard_->answer(context->route, *shared, context->key));
        return translate(*shared, responder);
    }
  });
  if (!accepted) {
    responder->respond(
        error_response(plain_error(429, "queue_full", "too many requests wait to be translated; try again")));
  }
}

HttpResponse Service::answer_directly(RouteId route, const HttpRequest& request) const {
  switch (route) {
    case RouteId::kHealth:
      return answer_health(false);
    case RouteId::kReady:
      return answer_health(true);
    case RouteId::kMetrics:
      return answer_metrics();
    case RouteId::kDashboard:
      return page_response(request);
    case RouteId::kModels: {
      const openai::ServedModel* const models[] = {backend_.model};
      return json_response(200, openai::models_body(models));
    }
    case RouteId::kModel: {
      const openai::ServedModel* const models[] = {backend_.model};
      const std::optional<std::string> id = decode_percent(request.path.substr(kModelPrefix.size()));
      return text_or_error(openai::model_body(id.value_or(request.path.substr(kModelPrefix.size())), models));
    }
    default:
      return json_response(200, openai::props_body(*backend_.model));
  }
}

HttpResponse Service::answer_metrics() const {
  ServerFigures server;
  if (const HttpServer* const http = server_) server.http = http->counters();
  if (log_ != nullptr) server.log_lines_dropped = log_->n_dropped();
  if (dashboard_ != nullptr && dashboard_->has_alarms()) server.hot_experts = dashboard_->hot_experts();
  HttpResponse response;
  response.headers = {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}};
  response.body = metrics_.text(server, loaded_ ? std::optional(backend_.figures()) : std::nullopt);
  return response;
}

HttpResponse Service::answer_health(bool asks_for_ready) const {
  const bool is_ready = loaded_ && !draining_;
  const char* const status = draining_ ? "draining" : loaded_ ? "ok" : "loading";
  std::string body = fmt::format("{{\"status\":\"{}\"", status);
  if (!loaded_) body += fmt::format(",\"progress\":{:.3f}", progress_.load());
  HttpResponse response = json_response(asks_for_ready && !is_ready ? 503 : 200, body + "}");
  response.headers.push_back({"Cache-Control", "no-store"});
  if (response.status == 503) response.headers.push_back({"Retry-After", "1"});
  return response;
}

/// What needs the tokenizer or the template, and not the engine.
void Service::translate(const HttpRequest& request, std::shared_ptr<Responder> responder) {
  const openai::ServedModel& model = *backend_.model;
  switch (context_of(request)->route) {
    case RouteId::kTokenize:
      return responder->respond(text_or_error(openai::tokenize(request.body, model)));
    case RouteId::kDetokenize:
      return responder->respond(text_or_error(openai::detokenize(request.body, model)));
    default:
      return responder->respond(text_or_error(openai::apply_template(request.body, model)));
  }
}

openai::Caller Service::caller_of(const RequestContext& context) const {
  openai::Caller caller{.seed = random_seed()};
  if (!context.key) return caller;
  const ApiKey& key = options_.keys[*context.key];
  caller.experts_per_token = key.max_experts_per_token;
  caller.allow_policy = key.allow_policy;
  return caller;
}

/// Says to the engine whose requests these are.
void Service::stamp(std::vector<Request>& requests, const RequestContext& context) const {
  if (!context.key) return;
  for (Request& request : requests) {
    request.tenant = options_.keys.tenant_of(*context.key);
    request.priority += static_cast<int32_t>(options_.keys[*context.key].priority);
  }
}

void Service::start_text(HttpRequest& request, std::shared_ptr<RequestContext> context,
                         std::shared_ptr<Responder> responder) {
  const bool is_chat = context->route == RouteId::kChat;
  const openai::Caller caller = caller_of(*context);
  openai::ApiResult<openai::TextJob> job =
      is_chat ? openai::read_chat(request.body, *backend_.model, caller)
              : openai::read_completion(request.body, *backend_.model, caller);
  request.body = {};
  request.body_lease.reset();
  if (!job) return responder->respond(error_response(job.error()));
  stamp(job->requests, *context);
  if (dashboard_ != nullptr) dashboard_->prepare(*job);
  const bool streams = job->stream;
  const std::string id = (is_chat ? "chatcmpl-" : "cmpl-") + request.id;
  auto generation = Generation::submit(backend_, *std::move(job), id, metrics_, context);
  if (!generation) return responder->respond(error_response(generation.error()));
  if (dashboard_ != nullptr) {
    auto trace = dashboard_->begin((*generation)->job(), request.id, context->route, context->key);
    context->set_trace(trace);
    (*generation)->set_trace(std::move(trace));
  }
  if (streams) return responder->respond(stream_answer(*std::move(generation)));
  collect_answer(*std::move(generation), responder,
                 [this](std::function<void()> task) { run_on_workers(std::move(task)); });
}

void Service::start_embedding(HttpRequest& request, std::shared_ptr<RequestContext> context,
                              std::shared_ptr<Responder> responder) {
  openai::ApiResult<openai::EmbeddingJob> job = openai::read_embedding(request.body, *backend_.model);
  request.body = {};
  request.body_lease.reset();
  if (!job) return responder->respond(error_response(job.error()));
  stamp(job->requests, *context);
  EmbeddingRun::start(backend_, *std::move(job), metrics_, std::move(context), std::move(responder),
                      [this](std::function<void()> task) { run_on_workers(std::move(task)); });
}

/// Where the workers are busy, the caller does it: what is finished must not be lost.
void Service::run_on_workers(std::function<void()> task) {
  if (!workers_.submit(task)) task();
}

HttpResponse Service::refusal(int status, const std::string& message) {
  return error_response(plain_error(status, status == 413 ? "body_too_large" : "", message));
}

HttpResponse Service::farewell() { return error_response(openai::ending_error()); }

void Service::on_done(const HttpRecord& record) {
  const auto* const context = static_cast<const RequestContext*>(record.context.get());
  metrics_.count_answer(context == nullptr ? RouteId::kOther : context->route, record.status);
  const RequestUse use = context == nullptr ? RequestUse() : context->use();
  if (use.outcome) metrics_.observe_request(record.seconds);
  const std::shared_ptr<RequestTrace> trace = context == nullptr ? nullptr : context->trace();
  if (trace != nullptr) trace->finish(use);
  if (log_ != nullptr) log_->write(access_line(record, context));
  if (log_ == nullptr && context != nullptr && !context->failure().empty())
    notes_->write("soli: " + failure_line(record, *context));
  if (options_.slow_request_seconds > 0 && record.seconds > options_.slow_request_seconds)
    notes_->write("soli: " + slow_line(record, context));
  if (context == nullptr || !context->is_work) return;
  const std::lock_guard lock(active_mutex_);
  if (--n_active_ == 0) idle_.notify_all();
}

}  // namespace soli::serve
