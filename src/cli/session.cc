#include "cli/session.h"

#include <sys/resource.h>

#include <chrono>
#include <utility>

#include "base/check.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace soli::cli {

Result<std::unique_ptr<Session>> Session::open(const ModelOptions& options) {
  std::unique_ptr<Session> session(new Session(options));
  SOLI_ASSIGN_OR_RETURN(const std::string isa, requested_isa());
  SOLI_ASSIGN_OR_RETURN(session->runtime_, Runtime::create({.n_threads = static_cast<int>(options.n_threads),
                                                            .memory_bytes = options.memory_bytes,
                                                            .isa = isa,
                                                            .pin = options.pin}));
  SOLI_ASSIGN_OR_RETURN(session->file_, ModelFile::open(options.path));
  if (session->context_length() > session->spec().context_length) {
    print_note("soli: -c {} is beyond the {} positions that the model was trained for\n",
               session->context_length(), session->spec().context_length);
  }
  return session;
}

int64_t Session::context_length() const {
  return options_.engine.context_length > 0 ? options_.engine.context_length : spec().context_length;
}

Result<const Tokenizer*> Session::tokenizer() {
  if (tokenizer_ == nullptr) {
    SOLI_ASSIGN_OR_RETURN(tokenizer_, Tokenizer::from_gguf(file().gguf()));
  }
  return tokenizer_.get();
}

Status Session::load(const EngineOptions& engine, int64_t n_positions) {
  SOLI_CHECK(model_ == nullptr, "a session loads once");
  const auto begin = std::chrono::steady_clock::now();
  SOLI_ASSIGN_OR_RETURN(const MemoryNeed need, count_memory_need(*file_, *runtime_, engine, n_positions));
  SOLI_RETURN_IF_ERROR(check_memory_need(need, options_.memory_bytes));
  SOLI_RETURN_IF_ERROR(runtime_->budget().charge("program", need.process));
  SOLI_RETURN_IF_ERROR(load_model(need));
  SOLI_ASSIGN_OR_RETURN(LocalExecutor executor, LocalExecutor::create(spec(), *store_, runtime_->budget(),
                                                                      engine.workspace_limits()));
  executor_ = std::make_unique<LocalExecutor>(std::move(executor));
  SOLI_ASSIGN_OR_RETURN(engine_, Engine::create(*model_, *executor_, engine));
  load_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {};
}

Status Session::load_model(const MemoryNeed& need) {
  ProgressLine progress("loading");
  const int64_t total = need.shared_weights + need.experts;
  SOLI_ASSIGN_OR_RETURN(model_, Model::load(*std::move(file_), *runtime_,
                                            [&](int64_t done, int64_t) { progress.show(done, total); }));
  SOLI_ASSIGN_OR_RETURN(store_,
                        ResidentExpertStore::load(model_->file(), *runtime_, [&](int64_t done, int64_t) {
                          progress.show(need.shared_weights + done, total);
                        }));
  return {};
}

int64_t peak_resident_bytes() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;  // Linux counts KiB
}

}  // namespace soli::cli
