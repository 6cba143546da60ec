// soli serve: an HTTP server with the API of OpenAI.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/affinity.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/config_flags.h"
#include "cli/output.h"
#include "cli/serve_model.h"
#include "cli/serve_options.h"
#include "cli/text_input.h"
#include "serve/access_log.h"
#include "serve/service.h"
#include "serve/service_manager.h"

namespace soli::cli {
namespace {

constexpr int64_t kMaxKeyFileBytes = int64_t{1} << 20;
constexpr std::chrono::milliseconds kSignalGap{50};
constexpr std::chrono::milliseconds kFarewellTime{1000};  // in which who is cut off can read so

/// What the server listens to. Blocked in all threads, so that the main thread can wait for them.
sigset_t handled_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  return signals;
}

/// The next signal, or nothing within that time.
std::optional<int> next_signal(std::chrono::milliseconds time) {
  const sigset_t signals = handled_signals();
  const struct timespec wait = {.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
  const int number = ::sigtimedwait(&signals, nullptr, &wait);
  return number > 0 ? std::optional(number) : std::nullopt;
}

/// Each connection is a file. Where the system allows fewer, those that are there are served.
void raise_file_limit(int64_t n_connections) {
  constexpr int64_t kFurtherFiles = 128;
  const auto wanted = static_cast<rlim_t>(n_connections + kFurtherFiles);
  struct rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  const bool is_set = ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
  if (is_set && limit.rlim_cur == wanted) return;
  print_note("soli: the system allows {} open files, too few for --max-connections {}\n", limit.rlim_cur,
             n_connections);
}

Result<serve::ApiKeys> read_keys(const ServeOptions& options, std::vector<serve::ApiKey> keys) {
  if (!options.api_key_file.empty()) {
    SOLI_ASSIGN_OR_RETURN(const std::string text, read_text(options.api_key_file, kMaxKeyFileBytes));
    SOLI_ASSIGN_OR_RETURN(std::vector<serve::ApiKey> more,
                          serve::parse_key_lines(text, options.api_key_file));
    keys.insert(keys.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  return serve::ApiKeys::create(std::move(keys));
}

/// A service manager that does not listen is no reason to end.
void tell_manager(std::string_view state) {
  if (const Status status = serve::notify_service_manager(state); !status) print_error(status.error());
}

/// A server from its start to its end.
class Serving {
 public:
  Serving(const ServeOptions& options, serve::ApiKeys keys) : options_(options), keys_(std::move(keys)) {}

  Result<int> run();

 private:
  Status open();
  Status check_place() const;
  Status listen();
  void load();
  /// Until a signal asks for the end. An error where loading failed.
  Status wait_for_end();
  Result<int> drain();
  void cut_off();
  [[noreturn]] void end_at_once(int signal);
  void reopen_log();

  const ServeOptions options_;
  serve::ApiKeys keys_;
  std::unique_ptr<ServeModel> model_;
  std::unique_ptr<serve::AccessLog> log_;
  std::unique_ptr<serve::Service> service_;
  std::unique_ptr<serve::HttpServer> http_;
  std::thread loader_;
  std::atomic<bool> loaded_ = false;  // or failed to
  std::optional<Error> load_error_;   // written before loaded_
};

Status Serving::open() {
  // With --pin, this thread and what it starts would all share the processor of the engine's thread.
  SOLI_ASSIGN_OR_RETURN(const cpu_set_t all, affinity_of(::pthread_self()));
  SOLI_ASSIGN_OR_RETURN(model_, ServeModel::open(options_));
  SOLI_RETURN_IF_ERROR(model_->check_keys(keys_));
  if (options_.check) return check_place();
  if (!options_.no_access_log) {
    SOLI_ASSIGN_OR_RETURN(log_, serve::AccessLog::open(options_.access_log));
  }
  SOLI_ASSIGN_OR_RETURN(const cpu_set_t engine_place, affinity_of(::pthread_self()));
  SOLI_RETURN_IF_ERROR(set_affinity(::pthread_self(), all));
  SOLI_RETURN_IF_ERROR(listen());
  return set_affinity(::pthread_self(), engine_place);
}

/// What can be known of it without binding an address or making a file.
Status Serving::check_place() const {
  SOLI_RETURN_IF_ERROR(serve::check_host(options_.host));
  return options_.access_log.empty() ? Status() : serve::AccessLog::check(options_.access_log);
}

Status Serving::listen() {
  raise_file_limit(options_.limits.max_connections);
  service_ = std::make_unique<serve::Service>(
      serve::ServiceOptions{
          .model_id = model_->id(),
          .keys = std::move(keys_),
          .cors_origin = options_.cors_origin,
          .slow_request_seconds = options_.slow_seconds,
          .n_workers = static_cast<size_t>(options_.workers),
          .dashboard = options_.no_dashboard ? std::nullopt : std::optional(options_.dashboard)},
      log_.get());
  SOLI_ASSIGN_OR_RETURN(http_, serve::HttpServer::start(options_.http(), *service_));
  service_->set_server(http_.get());
  for (const std::string& address : http_->addresses()) print_note("soli: listening on http://{}\n", address);
  return {};
}

void Serving::load() {
  const Status status = model_->start([this](double share) { service_->show_progress(share); });
  if (!status) load_error_ = status.error();
  if (status) service_->set_backend(model_->backend());
  loaded_ = true;
  if (!status) return;
  print_note("soli: {} is ready after {:.1f} s: {} at once, contexts of {} tokens{}\n", model_->id(),
             model_->session().load_seconds(), options_.model.engine.max_sequences, model_->context_length(),
             model_->takes_chats() ? "" : ", no chats: there is no chat template");
  tell_manager("READY=1\nSTATUS=ready");
}

void Serving::reopen_log() {
  if (log_ == nullptr) return;
  if (const Status status = log_->reopen(); !status) print_error(status.error());
}

Status Serving::wait_for_end() {
  while (true) {
    if (loaded_ && load_error_) return tl::unexpected<Error>(*load_error_);
    const std::optional<int> signal = next_signal(kSignalGap);
    if (signal == SIGHUP) reopen_log();
    if (signal == SIGINT || signal == SIGTERM) return {};
  }
}

/// Running requests may finish; a second signal does not wait for them.
Result<int> Serving::drain() {
  using Clock = std::chrono::steady_clock;
  service_->begin_drain();
  http_->drain();
  tell_manager("STOPPING=1\nSTATUS=draining");
  print_note("soli: ending: {} requests have {:g} s to finish; a second signal ends at once\n",
             service_->n_active(), options_.drain_seconds);
  const Clock::time_point until =
      Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(options_.drain_seconds * 1000));
  bool is_idle = service_->wait_until_idle(std::chrono::milliseconds(0));
  while (!is_idle && Clock::now() < until) {
    const std::optional<int> signal = next_signal(std::chrono::milliseconds(0));
    if (signal == SIGHUP) reopen_log();
    if (signal == SIGINT || signal == SIGTERM) end_at_once(*signal);
    is_idle = service_->wait_until_idle(kSignalGap);
  }
  const int64_t n_cut = service_->n_active();
  cut_off();
  http_->stop();
  if (n_cut > 0) print_note("soli: {} requests were cut off\n", n_cut);
  return n_cut > 0 ? kExitError : kExitDone;
}

/// Streams end with an error, and who waits for an answer gets one; who does not read it in time goes
/// without.
void Serving::cut_off() {
  http_->cut_off();
  service_->wait_until_idle(kFarewellTime);
}

/// A step may take long, and the weights may yet be read: nobody waits for them.
void Serving::end_at_once(int signal) {
  cut_off();
  http_->stop();
  log_.reset();
  if (const Status written = model_->finish_trace(); !written) print_error(written.error());
  print_note("soli: ended at once\n");
  std::_Exit(128 + signal);
}

Result<int> Serving::run() {
  const sigset_t signals = handled_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // of a standard error that nobody reads
  SOLI_RETURN_IF_ERROR(open());
  if (options_.check) {
    print("{}: {} API keys, http://{}:{}, contexts of {} tokens{}\n", model_->id(), keys_.size(),
          options_.host, options_.port, model_->context_length(), model_->takes_chats() ? "" : ", no chats");
    return kExitDone;
  }
  loader_ = std::thread([this] { load(); });
  const Status ended = wait_for_end();
  if (ended && !loaded_) {
    tell_manager("STOPPING=1");
    http_->stop();
    log_.reset();
    std::_Exit(kExitDone);
  }
  loader_.join();
  if (!ended) {
    http_->stop();
    return tl::unexpected<Error>(ended.error());
  }
  SOLI_ASSIGN_OR_RETURN(const int status, drain());
  model_->stop();
  service_->stop();
  SOLI_RETURN_IF_ERROR(model_->finish_trace());
  SOLI_RETURN_IF_ERROR(model_->save_records());
  return status;
}

Result<int> run(CLI::App& app, ServeOptions& options) {
  std::vector<serve::ApiKey> keys;
  if (!options.config_file.empty()) {
    SOLI_ASSIGN_OR_RETURN(keys, apply_config(app, options.config_file));
  }
  SOLI_RETURN_IF_ERROR(check_serve_options(options));
  SOLI_ASSIGN_OR_RETURN(serve::ApiKeys known, read_keys(options, std::move(keys)));
  return Serving(options, std::move(known)).run();
}

}  // namespace

Command add_serve(CLI::App& program) {
  CLI::App* const app = program.add_subcommand("serve", "Serve a model over HTTP, with the API of OpenAI");
  const auto options = std::make_shared<ServeOptions>();
  add_serve_options(*app, *options);
  app->footer(
      "Paths: /v1/chat/completions /v1/completions /v1/embeddings /v1/models /tokenize /detokenize\n"
      "       /apply-template /health /ready /props /metrics /dashboard\n"
      "Without --ctx, a context has as many tokens as the model was trained for, at most 8192.\n"
      "SIGTERM and SIGINT let running requests finish, SIGHUP opens the access log anew.\n"
      "Exit status: 0 all requests finished, 1 some were cut off, 130 or 143 after a second signal.\n\n"
      "Examples:\n"
      "  soli serve model.gguf\n"
      "  soli serve model.gguf --host 0.0.0.0 --port 8000 --api-key-file keys.txt --parallel 16 --ctx 4096\n"
      "  soli serve larger-than-memory.gguf --memory 24GiB --access-log /var/log/soli/access.log\n"
      "  soli serve model.gguf --trace choices.sqlite --trace-sample 0.1\n"
      "  soli serve --config /etc/soli/serve.toml --check");
  return {app, [app, options] { return run(*app, *options); }};
}

}  // namespace soli::cli
