#include "serve/reply_slot.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "serve/http_connection.h"

namespace soli::serve {
namespace {

class SlotResponder final : public Responder {
 public:
  explicit SlotResponder(std::shared_ptr<ReplySlot> slot) : slot_(std::move(slot)) {}
  ~SlotResponder() override { slot_->put({.status = kNoAnswer}); }

  void respond(HttpResponse response) override { slot_->put(std::move(response)); }
  bool is_abandoned() const override { return slot_->is_abandoned(); }
  void set_on_abandoned(std::function<void()> callback) override {
    slot_->set_on_abandoned(std::move(callback));
  }
  void post(std::function<void()> task) override { slot_->post(std::move(task)); }

 private:
  const std::shared_ptr<ReplySlot> slot_;
};

}  // namespace

void ReplySlot::put(HttpResponse response) {
  std::function<void()> dropped;  // what it owns may call back when it goes, so it goes without the lock
  {
    const std::lock_guard lock(mutex_);
    if (answered_ || abandoned_) return;
    answered_ = true;
    response_ = std::move(response);
    dropped.swap(on_abandoned_);
  }
  wake();
}

std::optional<HttpResponse> ReplySlot::take() {
  const std::lock_guard lock(mutex_);
  std::optional<HttpResponse> response = std::move(response_);
  response_.reset();
  return response;
}

void ReplySlot::abandon() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    response_.reset();
    callback = std::move(on_abandoned_);
    on_abandoned_ = nullptr;
  }
  if (callback) callback();
}

bool ReplySlot::is_abandoned() const {
  const std::lock_guard lock(mutex_);
  return abandoned_;
}

void ReplySlot::set_on_abandoned(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (answered_) return;
    if (!abandoned_) {
      on_abandoned_ = std::move(callback);
      return;
    }
  }
  post(std::move(callback));
}

void ReplySlot::post(std::function<void()> task) { asio::post(io_->context, std::move(task)); }

void ReplySlot::wake() {
  asio::post(io_->context, [connection = connection_] {
    if (const auto alive = connection.lock()) alive->wake();
  });
}

std::shared_ptr<Responder> make_responder(std::shared_ptr<ReplySlot> slot) {
  return std::make_shared<SlotResponder>(std::move(slot));
}

}  // namespace soli::serve
