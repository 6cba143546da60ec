#pragma once

// The guards of the interpreter; only its own files need them.

#include "format/jinja/interpreter.h"

namespace soli::jinja {

/// One node more under evaluation while it lives; a call of a macro counts as several, since it takes more of
/// the stack.
class Interpreter::DepthGuard {
 public:
  static constexpr int kMacro = 4;

  explicit DepthGuard(Interpreter& interpreter, int levels = 1) : interpreter_(interpreter), levels_(levels) {
    interpreter_.depth_ += levels_;
  }
  ~DepthGuard() { interpreter_.depth_ -= levels_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

  Status check() const {
    const int allowed = interpreter_.context_.limits().depth;
    if (interpreter_.depth_ <= allowed) return interpreter_.context_.work(1);
    return fail(ErrorKind::kLimit, "macros and expressions nest deeper than the {} levels allowed", allowed);
  }

 private:
  Interpreter& interpreter_;
  const int levels_;
};

/// A new scope, the current one while it lives. If a macro was defined in it, it is kept when it ends.
class Interpreter::InnerScope {
 public:
  InnerScope(Interpreter& interpreter, Scope* parent)
      : interpreter_(interpreter), outer_(interpreter.scope_), parent_(parent) {
    renew();
  }
  ~InnerScope() {
    retire();
    interpreter_.scope_ = outer_;
  }
  InnerScope(const InnerScope&) = delete;
  InnerScope& operator=(const InnerScope&) = delete;

  /// Begins anew, for the next iteration of a loop.
  void clear() {
    if (scope_->has_macro) {
      retire();
      renew();
    } else {
      scope_->variables.clear();
    }
  }

 private:
  void renew() {
    scope_ = std::make_unique<Scope>(interpreter_.context_.meter(), parent_);
    interpreter_.scope_ = scope_.get();
  }
  void retire() {
    if (scope_->has_macro) interpreter_.kept_.push_back(std::move(scope_));
  }

  Interpreter& interpreter_;
  Scope* const outer_;
  Scope* const parent_;
  std::unique_ptr<Scope> scope_;
};

}  // namespace soli::jinja
