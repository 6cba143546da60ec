#pragma once

// The values of a template, with the semantics of Python's. All are immutable but for the objects that
// namespace(), joiner(), cycler() and loops make; so lists and mappings are shared rather than copied, and
// nothing can contain itself.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace soli::jinja {

class Value;

/// Counts the bytes of all values that are alive. Must outlive them.
struct Meter {
  size_t used = 0;
};

/// What every value on the heap begins with: takes its size off the meter when it goes.
class Charged {
 public:
  Charged() = default;
  Charged(Meter& meter, size_t bytes) : meter_(&meter), bytes_(bytes) { meter.used += bytes; }
  ~Charged() {
    if (meter_ != nullptr) meter_->used -= bytes_;
  }
  Charged(const Charged&) = delete;
  Charged& operator=(const Charged&) = delete;

 private:
  Meter* meter_ = nullptr;  // null: part of the template, which no rendering pays for
  size_t bytes_ = 0;
};

/// A string: UTF-8, well formed.
struct Text : Charged {
  explicit Text(std::string text);
  Text(Meter& meter, std::string text);

  std::string bytes;
  bool is_ascii = false;   // then a character is a byte
  bool is_markup = false;  // made by safe or escape: adding plain text to it escapes that text
};

struct List : Charged {
  List(Meter& meter, std::vector<Value> items, bool is_tuple);

  std::vector<Value> items;
  bool is_tuple = false;
  bool holds_state = false;  // an element is, or holds, an object that can change
  int depth = 1;
};

/// A mapping in order of insertion. Finds a string key in O(log n).
struct Dict : Charged {
  using Entry = std::pair<Value, Value>;
  /// The keys must be distinct (Context::dict sees to that).
  Dict(Meter& meter, std::vector<Entry> entries);

  const Value* find(std::string_view key) const;

  std::vector<Entry> entries;
  std::vector<uint32_t> by_key;  // indices of the entries with string keys, sorted by key
  bool holds_state = false;
  int depth = 1;
};

/// What is not data: functions, macros, namespaces, loops.
struct Object {
  enum class Kind { kNamespace, kLoop, kJoiner, kCycler, kMacro, kGlobal, kMethod };
  Object(Kind kind, Meter& meter, size_t bytes) : kind(kind), charged(meter, bytes) {}
  virtual ~Object() = default;
  /// Whether it can change, or holds what can.
  virtual bool holds_state() const { return true; }

  const Kind kind;
  const Charged charged;
};

struct None {};
/// The value of a name that is not there. `what` is the sentence for an error, such as "'x' is undefined".
struct Undefined {
  std::shared_ptr<const std::string> what;
};

class Value {
 public:
  enum class Kind : uint8_t { kUndefined, kNone, kBool, kInt, kFloat, kText, kList, kDict, kObject };

  Value() = default;
  explicit Value(Undefined undefined) : held_(std::move(undefined.what)) {}
  explicit Value(None /*none*/) : kind_(Kind::kNone) {}
  explicit Value(bool value) : kind_(Kind::kBool), int_(value ? 1 : 0) {}
  explicit Value(int64_t value) : kind_(Kind::kInt), int_(value) {}
  explicit Value(double value) : kind_(Kind::kFloat), float_(value) {}
  explicit Value(std::shared_ptr<const Text> text) : kind_(Kind::kText), held_(std::move(text)) {}
  explicit Value(std::shared_ptr<const List> list) : kind_(Kind::kList), held_(std::move(list)) {}
  explicit Value(std::shared_ptr<const Dict> dict) : kind_(Kind::kDict), held_(std::move(dict)) {}
  explicit Value(std::shared_ptr<Object> object) : kind_(Kind::kObject), held_(std::move(object)) {}
  Value(const void*) = delete;  // would become a bool

  Kind kind() const { return kind_; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_bool() const { return kind_ == Kind::kBool; }
  bool is_int() const { return kind_ == Kind::kInt; }  // not for a bool
  bool is_float() const { return kind_ == Kind::kFloat; }
  bool is_integral() const { return is_bool() || is_int(); }
  bool is_number() const { return is_integral() || is_float(); }
  bool is_text() const { return kind_ == Kind::kText; }

  /// The value as the type, or nullptr.
  const Text* text() const { return held_as<Text>(Kind::kText); }
  const List* list() const { return held_as<List>(Kind::kList); }  // or tuple
  const Dict* dict() const { return held_as<Dict>(Kind::kDict); }
  Object* object() const { return const_cast<Object*>(held_as<Object>(Kind::kObject)); }
  template <typename T>
  T* object_as(Object::Kind kind) const {
    Object* const found = object();
    return found != nullptr && found->kind == kind ? static_cast<T*>(found) : nullptr;
  }

  std::string_view bytes() const { return text()->bytes; }  // of a string
  bool as_bool() const { return int_ != 0; }
  int64_t as_int() const { return int_; }  // of a bool or an integer, as in Python
  double as_float() const { return is_float() ? float_ : static_cast<double>(int_); }  // of any number

  /// Why an undefined value is not there.
  std::string_view why_undefined() const;
  bool holds_state() const;
  int depth() const;
  /// Whether Python would take it for true.
  bool truthy() const;
  /// Whether both are one object, as Python's `is`.
  bool same_as(const Value& other) const;

 private:
  template <typename T>
  const T* held_as(Kind kind) const {
    return kind_ == kind ? static_cast<const T*>(held_.get()) : nullptr;
  }

  Kind kind_ = Kind::kUndefined;
  union {
    int64_t int_ = 0;
    double float_;
  };
  std::shared_ptr<const void> held_;  // a T of kind_; for undefined, the string that says why, or null
};

/// The name of its type in Python: "str", "list", "NoneType".
std::string_view type_name(const Value& value);

/// Bytes that a value takes where it stands in a list.
inline constexpr size_t kValueBytes = sizeof(Value);

}  // namespace soli::jinja
