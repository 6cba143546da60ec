#include "cli/serve_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "base/utf8.h"
#include "cli/flags.h"
#include "serve/http_rules.h"

namespace soli::cli {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr double kDaySeconds = 86'400;
constexpr int64_t kConnectionBytes = 24 << 10;  // measured: some 10 KB while idle, buffers while busy

std::chrono::milliseconds ms(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

/// A name within an answer, a log line and a label of a metric.
bool is_model_id(const std::string& text) {
  const bool has_controls =
      std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; });
  return !text.empty() && text.size() <= kMaxModelIdBytes && is_valid_utf8(text) && !has_controls;
}

void add_address_options(CLI::App& app, ServeOptions& options) {
  const auto set_host = [&options](const std::string& text) {
    if (!serve::is_host(text)) {
      throw CLI::ValidationError(
          "--host",
          fmt::format("'{}' is no address or name; such are 127.0.0.1, ::1 and localhost, and for all "
                      "addresses 0.0.0.0 and ::",
                      printable(text)));
    }
    options.host = text;
  };
  app.add_option_function<std::string>("--host", set_host,
                                       "Address or name to listen on; ::1 and so on for IPv6")
      ->type_name("HOST")
      ->default_str(options.host);
  add_integer(app, "--port", options.port, {0, 65'535},
              "Port to listen on; 0: one that is free, which is printed");
  app.add_option(
         "--allowed-host", options.allowed_hosts,
         "A further name that requests may call this server by (Host); may be given several times. Without "
         "any, a server on a loopback address takes 'localhost' and addresses only, against pages that "
         "point a name of theirs to it; another takes all names")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
  app.add_option(
         "--cors-origin", options.cors_origin,
         "Pages of this origin, such as https://chat.example, may use the API from a browser; *: all pages")
      ->type_name("ORIGIN");
  add_path(app, "--api-key-file", options.api_key_file,
           "Requests need a key of this file: 'KEY' or 'KEY NAME' a line; /health and /ready do not");
}

void add_model_serving_options(CLI::App& app, ServeOptions& options) {
  const auto set_id = [&options](const std::string& text) {
    if (!is_model_id(text)) {
      throw CLI::ValidationError(
          "--model-id", fmt::format("'{}' is no name: 1 to {} bytes of UTF-8 without control characters",
                                    printable(text), kMaxModelIdBytes));
    }
    options.model_id = text;
  };
  app.add_option_function<std::string>("--model-id", set_id,
                                       "Name of the model in requests and answers; default: of the file")
      ->type_name("NAME");
  CLI::Option* const none = app.add_flag("--no-template", options.no_template, "Take no chats");
  add_path(app, "--template", options.template_file, "A chat template in a file, instead of the model's own")
      ->excludes(none);
  options.model.engine.max_sequences = 32;
  add_integer(app, "--parallel", options.model.engine.max_sequences, {1, 4096}, "Requests that share a step");
  add_integer(app, "--max-queued", options.model.engine.max_queued, {1, 65'536},
              "Requests that wait for a place; beyond, the answer is 429");
  add_integer(app, "--max-queued-per-key", options.model.engine.max_queued_per_tenant, {0, 65'536},
              "The same for each API key, or tenant of such; 0: as many as may wait at all");
  add_integer(
      app, "--kv-tokens", options.kv_tokens, {0, kUnlimited / 2},
      "Keys and values of at most so many tokens, of requests and the prefix cache together; 0: as many as "
      "memory has room for, at least 4 full contexts");
  app.add_flag("--no-prefix-cache", options.no_prefix_cache,
               "Compute every prompt from its beginning, whatever was computed before");
  app.add_flag("--no-grouping", options.no_grouping,
               "Requests run in the order in which they came, not beside those that are expected to call the "
               "same experts");
  options.model.engine.max_slowdown = 2.5;
  add_number(app, "--max-slowdown", options.model.engine.max_slowdown, {0, 1000},
             "How much longer the steps of running streams may take for prompts that are read in them: 1 or "
             "more; 0: "
             "no limit");
  add_integer(
      app, "--max-experts-per-token", options.max_experts_per_token, {0, kMaxExperts},
      "Experts per token and layer that a request may ask for; 0: as many as the model was trained with");
  app.add_option_function<std::string>(
         "--allow-policy",
         [&options](const std::string& text) {
           auto allowance = serve::PolicyAllowance::parse(text);
           if (!allowance) throw CLI::ValidationError("--allow-policy", allowance.error().message);
           options.allow_policy = *std::move(allowance);
         },
         "Controls of the routing policy that a request may set in \"policy\": none, all, or some such as "
         "temperature,mask")
      ->type_name("LIST")
      ->default_str("none");
}

void add_limit_options(CLI::App& app, ServeOptions& options) {
  serve::HttpLimits& limits = options.limits;
  add_integer(app, "--max-connections", limits.max_connections, {1, 1'000'000},
              "Open connections; beyond, the answer is 503");
  add_integer(app, "--max-header-bytes", limits.max_header_bytes, {1024, 32 << 10},
              "Bytes of a request's line and header fields together");
  add_integer(app, "--max-header-fields", limits.max_header_fields, {4, 1000}, "Header fields of a request");
  add_integer(app, "--max-body-bytes", limits.max_body_bytes, {1024, 1 << 30}, "Bytes of a request's body");
  add_integer(app, "--max-bodies-bytes", limits.max_bodies_bytes, {1024, int64_t{1} << 40},
              "Bytes of all bodies together that are being read or translated; beyond, the answer is 503");
  const auto add_time = [&app](const std::string& name, double& seconds, const std::string& what) {
    add_number(app, name, seconds, {0.001, kDaySeconds}, what)->type_name("SECONDS");
  };
  add_time("--header-timeout", options.header_seconds, "Time for a request's line and header fields");
  add_time("--body-timeout", options.body_seconds, "Time for a request's body");
  add_time("--idle-timeout", options.idle_seconds, "Time that a connection may wait for its next request");
  add_time("--write-timeout", options.write_seconds,
           "Time in which a client must read some of what it is sent");
  add_time("--request-timeout", options.request_seconds, "Time until an answer must begin");
  add_integer(app, "--http-threads", options.http_threads, {1, serve::HttpServer::kMaxThreads},
              "Threads that carry connections");
  add_integer(app, "--workers", options.workers, {1, 64}, "Threads that turn bodies into tokens");
}

void add_dashboard_options(CLI::App& app, ServeOptions& options) {
  serve::DashboardOptions& dashboard = options.dashboard;
  app.add_flag("--no-dashboard", options.no_dashboard, "No /dashboard, and nothing below /api/v1/dashboard");
  add_bytes(app, "--dashboard-memory", dashboard.memory_bytes,
            "What the dashboard may remember: half for figures over time, half for tokens of requests");
  add_integer(app, "--dashboard-requests", dashboard.max_requests, {0, 256},
              "Requests that the dashboard remembers; each key sees its own; 0: none");
  add_choice<bool>(
      app, "--dashboard-routing", dashboard.all_routing, {{"asked", false}, {"all", true}},
      "Whose tokens and experts are remembered: of requests that ask for their routing, or of all");
  add_number(app, "--dashboard-half-life", dashboard.half_life_seconds, {0.1, kDaySeconds},
             "In which the heat of an expert that nobody calls falls to half")
      ->type_name("SECONDS");
  add_number(
      app, "--hot-expert", dashboard.hot_expert, {0, 1000},
      "From how many times its fair share of the calls an expert counts as hot: more than 1; 0: never");
}

void add_running_options(CLI::App& app, ServeOptions& options) {
  add_number(app, "--drain-timeout", options.drain_seconds, {0, kDaySeconds},
             "After SIGTERM or SIGINT, running requests have so long to finish; a second signal ends at once")
      ->type_name("SECONDS");
  CLI::Option* const none = app.add_flag("--no-access-log", options.no_access_log, "No access log");
  add_path(
      app, "--access-log", options.access_log,
      "Append a line of JSON for each request to this file, opened anew at SIGHUP; default: standard error")
      ->excludes(none);
  add_number(app, "--slow-request", options.slow_seconds, {0, kDaySeconds},
             "Say where the time went of requests that take longer; 0: never")
      ->type_name("SECONDS");
  add_choice<serve::ExpertMetrics>(
      app, "--expert-metrics", options.expert_metrics,
      {{"none", serve::ExpertMetrics::kNone},
       {"experts", serve::ExpertMetrics::kExperts},
       {"layers", serve::ExpertMetrics::kLayers}},
      "Whose calls and busy time /metrics shows: nobody's, each expert's over all "
      "layers, or each expert's in each layer, 20000 at most");
  add_dashboard_options(app, options);
  add_path(app, "--config", options.config_file,
           "Read options from a TOML file: keys are the long names of options; the command line goes before");
  app.add_flag("--check", options.check, "Check the configuration and the head of the model's file, and end");
}

}  // namespace

void add_serve_options(CLI::App& app, ServeOptions& options) {
  add_model_options(app, options.model);
  app.get_option("model")->required(false);  // the file may name it
  add_model_serving_options(app, options);
  add_address_options(app, options);
  add_limit_options(app, options);
  add_running_options(app, options);
  add_path(
      app, "--heat", options.model.memory.heat_file,
      "How much each expert was called of late: loaded at the start, if it is there, to read the hottest "
      "experts first, and saved at the end");
}

serve::HttpServerOptions ServeOptions::http() const {
  serve::HttpServerOptions http{.host = host, .port = port, .n_threads = http_threads, .limits = limits};
  http.allowed_hosts = allowed_hosts;
  http.limits.header_time = ms(header_seconds);
  http.limits.body_time = ms(body_seconds);
  http.limits.idle_time = ms(idle_seconds);
  http.limits.write_time = ms(write_seconds);
  http.limits.request_time = ms(request_seconds);
  return http;
}

int64_t ServeOptions::server_bytes() const {
  const int64_t dashboard_bytes = no_dashboard ? 0 : dashboard.memory_bytes;
  return limits.max_bodies_bytes + limits.max_connections * kConnectionBytes + dashboard_bytes;
}

Status check_serve_options(const ServeOptions& options) {
  if (options.model.path.empty()) {
    return fail(ErrorKind::kInvalidArgument,
                "no model: name one on the command line, or as 'model' in --config");
  }
  if (options.limits.max_bodies_bytes < options.limits.max_body_bytes) {
    return fail(ErrorKind::kInvalidArgument, "--max-bodies-bytes {} is less than --max-body-bytes {}",
                options.limits.max_bodies_bytes, options.limits.max_body_bytes);
  }
  const double slowdown = options.model.engine.max_slowdown;
  if (slowdown > 0 && slowdown < 1)
    return fail(ErrorKind::kInvalidArgument, "--max-slowdown {}: 1 or more, or 0", slowdown);
  if (options.dashboard.hot_expert > 0 && options.dashboard.hot_expert <= 1) {
    return fail(ErrorKind::kInvalidArgument, "--hot-expert {}: more than 1, or 0",
                options.dashboard.hot_expert);
  }
  if (options.no_template && !options.template_file.empty())
    return fail(ErrorKind::kInvalidArgument, "--no-template excludes --template");
  if (options.no_access_log && !options.access_log.empty())
    return fail(ErrorKind::kInvalidArgument, "--no-access-log excludes --access-log");
  const std::string& origin = options.cors_origin;
  const bool is_origin = (origin.starts_with("http://") || origin.starts_with("https://")) &&
                         origin.find('/', origin.find("://") + 3) == std::string::npos &&
                         origin.find_first_of(" \t\r\n,*") == std::string::npos && !origin.ends_with("://");
  if (!origin.empty() && origin != "*" && !is_origin) {
    return fail(
        ErrorKind::kInvalidArgument,
        "--cors-origin '{}' is no origin: a scheme, a host and perhaps a port, such as https://chat.example, "
        "or *",
        origin);
  }
  return {};
}

}  // namespace soli::cli
