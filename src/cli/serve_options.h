#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/model_options.h"
#include "serve/dashboard/dashboard.h"
#include "serve/expert_figures.h"
#include "serve/http_server.h"
#include "serve/policy_allowance.h"

namespace CLI {
class App;
}

namespace soli::cli {

inline constexpr size_t kMaxModelIdBytes = 256;

/// What `soli serve` lets people choose. Each has a flag, and the flag's long name is a key of the file.
struct ServeOptions {
  ModelOptions model;
  std::string config_file;
  bool check = false;
  std::string model_id;       // "": the name of the file
  std::string template_file;  // "": the model's own
  bool no_template = false;   // takes no chats
  int64_t kv_tokens = 0;      // 0: as many as memory has room for, at least kUsualContexts
  bool no_prefix_cache = false;
  bool no_grouping = false;
  int64_t max_experts_per_token = 0;  // 0: the model's k
  serve::PolicyAllowance allow_policy;

  std::string host = "127.0.0.1";
  int64_t port = 8080;
  std::vector<std::string> allowed_hosts;
  std::string cors_origin;
  std::string api_key_file;
  int64_t http_threads = 1;
  int64_t workers = 2;
  serve::HttpLimits limits;
  double header_seconds = 10;
  double body_seconds = 60;
  double idle_seconds = 75;
  double write_seconds = 30;
  double request_seconds = 3600;
  double drain_seconds = 30;

  std::string access_log;  // "": standard error
  bool no_access_log = false;
  double slow_seconds = 30;
  serve::ExpertMetrics expert_metrics = serve::ExpertMetrics::kExperts;
  bool no_dashboard = false;
  serve::DashboardOptions dashboard;

  /// Memory for full contexts of so many requests at once is planned, unless it is said for how many tokens.
  static constexpr int64_t kUsualContexts = 4;
  /// Longest context where none is asked for and the model was trained for more.
  static constexpr int64_t kUsualContext = 8192;

  int64_t context_length(int64_t trained) const {
    const int64_t asked = model.engine.context_length;
    return asked > 0 ? asked : std::min(trained, kUsualContext);
  }
  /// The transport, with times as it wants them.
  serve::HttpServerOptions http() const;
  /// What the server itself may need, beside the model.
  int64_t server_bytes() const;
};

void add_serve_options(CLI::App& app, ServeOptions& options);

/// What no single option can know.
Status check_serve_options(const ServeOptions& options);

}  // namespace soli::cli
