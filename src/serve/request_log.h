#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "engine/request.h"
#include "serve/http.h"

namespace soli::serve {

enum class RouteId {
  kOther,  // no route, or none yet
  kHealth,
  kReady,
  kMetrics,
  kModels,
  kModel,
  kProps,
  kChat,
  kCompletions,
  kEmbeddings,
  kTokenize,
  kDetokenize,
  kApplyTemplate,
  kDashboard,
  kDashboardState,
  kDashboardSeries,
  kDashboardHeat,
  kDashboardExperts,
  kDashboardAlarms,
  kDashboardRequests,
  kDashboardRequest,
};

/// What became of one choice of a request.
enum class Outcome { kStop, kLength, kAbort, kError };
inline constexpr size_t kOutcomes = 4;
const char* name_of(Outcome outcome);

/// What one request used and where its time went: over all its choices the tokens add up, and the longest
/// time of each kind counts.
struct RequestUse {
  int64_t n_prompt = 0;
  int64_t n_cached = 0;  // of the prompts' tokens
  int64_t n_generated = 0;
  int64_t n_preempted = 0;
  double queue_seconds = 0;        // until the first token of a prompt was computed
  double prefill_seconds = 0;      // from there to the first generated token
  double decode_seconds = 0;       // from there to the last
  std::optional<Outcome> outcome;  // the worst of the choices; absent: no text was asked for

  void add(const RequestSummary& summary, Outcome its_outcome);
};

class RequestTrace;

/// What is remembered of a request beside the request. Members are written before it is handed on. What
/// functions take is told by workers, and asked for by the connection, which does not wait for them once its
/// client has left: any thread.
class RequestContext final : public HttpContext {
 public:
  RouteId route = RouteId::kOther;
  std::optional<size_t> key;  // of ApiKeys
  std::string key_name;
  bool allows_origin = false;  // CORS: the answer may be read by the page that asks
  bool is_work = false;        // counts while the server drains

  void add_use(const RequestSummary& summary, Outcome outcome);
  RequestUse use() const;
  /// Of the engine, in more words than the client is told; "": none.
  void set_failure(std::string failure);
  std::string failure() const;
  /// For the dashboard; null: it looks at something else.
  void set_trace(std::shared_ptr<RequestTrace> trace);
  std::shared_ptr<RequestTrace> trace() const;

 private:
  mutable std::mutex mutex_;
  RequestUse use_;
  std::string failure_;
  std::shared_ptr<RequestTrace> trace_;
};

/// One line of JSON for the access log: no text of any prompt or answer, no key.
std::string access_line(const HttpRecord& record, const RequestContext* context);

/// "request req-1 failed: ...", for people.
std::string failure_line(const HttpRecord& record, const RequestContext& context);

/// "chat 12.3 s: waiting 0.1, prefill 8.0, decode 4.1, writing 0.1, ...", for people.
std::string slow_line(const HttpRecord& record, const RequestContext* context);

}  // namespace soli::serve
