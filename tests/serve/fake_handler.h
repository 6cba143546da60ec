#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "serve/http_server.h"

namespace soli::serve {

/// A body of pieces that the test hands out one by one.
class FakeFeed {
 public:
  void push(std::string bytes, bool is_last = false) {
    std::function<void()> wake;
    {
      const std::lock_guard lock(mutex_);
      pieces_.push_back({std::move(bytes), is_last});
      wake = wake_;
    }
    if (wake) wake();
  }
  size_t n_waiting() const {
    const std::lock_guard lock(mutex_);
    return pieces_.size();
  }
  bool is_destroyed() const {
    const std::lock_guard lock(mutex_);
    return destroyed_;
  }

 private:
  friend class FakeSource;
  mutable std::mutex mutex_;
  std::vector<BodySource::Piece> pieces_;
  std::function<void()> wake_;
  bool destroyed_ = false;
};

class FakeSource final : public BodySource {
 public:
  explicit FakeSource(std::shared_ptr<FakeFeed> feed) : feed_(std::move(feed)) {}
  ~FakeSource() override {
    const std::lock_guard lock(feed_->mutex_);
    feed_->destroyed_ = true;
    feed_->wake_ = nullptr;
  }
  void start(std::function<void()> wake) override {
    const std::lock_guard lock(feed_->mutex_);
    feed_->wake_ = std::move(wake);
  }
  std::string last_words() override { return "last words"; }
  std::optional<Piece> next() override {
    const std::lock_guard lock(feed_->mutex_);
    if (feed_->pieces_.empty()) return {};
    Piece piece = std::move(feed_->pieces_.front());
    feed_->pieces_.erase(feed_->pieces_.begin());
    return piece;
  }

 private:
  const std::shared_ptr<FakeFeed> feed_;
};

/// Answers by path: /echo the body, /later the same from another thread, /keep nothing until the test does,
/// /feed a FakeFeed, /drop goes without an answer, /refuse is refused by its head.
class FakeHandler final : public HttpHandler {
 public:
  ~FakeHandler() override {
    for (std::thread& thread : threads_) thread.join();
  }

  std::optional<HttpResponse> on_head(HttpRequest& request) override {
    if (request.path == "/refuse") return HttpResponse{.status = 401, .body = "refused"};
    return {};
  }

  void on_request(HttpRequest request, std::shared_ptr<Responder> responder) override {
    const std::lock_guard lock(mutex_);
    if (request.path == "/later") {
      threads_.emplace_back([body = request.body, responder] { responder->respond({.body = body}); });
    } else if (request.path == "/keep") {
      responder->set_on_abandoned([this] {
        const std::lock_guard inner(mutex_);
        ++n_abandoned_;
        changed_.notify_all();
      });
      kept_.push_back(std::move(responder));
      leases_.push_back(request.body_lease);
    } else if (request.path == "/feed") {
      feeds_.push_back(std::make_shared<FakeFeed>());
      responder->respond({.headers = {{"Content-Type", "text/event-stream"}},
                          .source = std::make_unique<FakeSource>(feeds_.back()),
                          .keep_alive_bytes = ":\n\n"});
    } else if (request.path != "/drop") {
      responder->respond({.body = request.body.empty() ? request.path + "?" + request.query : request.body});
    }
    changed_.notify_all();
  }

  HttpResponse refusal(int status, const std::string& message) override {
    return {.status = status, .body = message};
  }

  HttpResponse farewell() override { return {.status = 503, .body = "farewell"}; }

  void on_done(const HttpRecord& record) override {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
    changed_.notify_all();
  }

  std::shared_ptr<FakeFeed> wait_for_feed(size_t index = 0) {
    wait_until([&] { return feeds_.size() > index; });
    const std::lock_guard lock(mutex_);
    return feeds_.at(index);
  }
  std::shared_ptr<Responder> wait_for_kept(size_t index = 0) {
    wait_until([&] { return kept_.size() > index; });
    const std::lock_guard lock(mutex_);
    return kept_.at(index);
  }
  bool wait_for_abandoned(int n) {
    return wait_until([&] { return n_abandoned_ >= n; });
  }
  HttpRecord wait_for_record(size_t index = 0) {
    wait_until([&] { return records_.size() > index; });
    const std::lock_guard lock(mutex_);
    return records_.at(index);
  }
  void forget_kept() {
    const std::lock_guard lock(mutex_);
    kept_.clear();
    leases_.clear();
  }

 private:
  template <typename Condition>
  bool wait_until(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), condition);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<FakeFeed>> feeds_;
  std::vector<std::shared_ptr<Responder>> kept_;
  std::vector<std::shared_ptr<void>> leases_;
  std::vector<HttpRecord> records_;
  std::vector<std::thread> threads_;
  int n_abandoned_ = 0;
};

}  // namespace soli::serve
