#pragma once

// The JSON of tokenizer.json and tokenizer_config.json, read within limits and looked at with errors that
// name the place ("model.merges[17]").

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace soli::hf {

inline constexpr size_t kMaxJsonDepth = 64;
/// Values in a file, those of the vocabulary and of the merges aside.
inline constexpr size_t kMaxJsonValues = size_t{1} << 20;
/// Stands for all ids from there on.
inline constexpr int64_t kTooLarge = int64_t{1} << 32;

/// A list of texts in one block.
class TextList {
 public:
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t i) const {
    const uint32_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }
  void push_back(std::string_view text) {
    bytes_ += text;
    ends_.push_back(static_cast<uint32_t>(bytes_.size()));
  }

 private:
  std::string bytes_;
  std::vector<uint32_t> ends_;
};

/// A file, whose vocabulary and merges would be large as general values.
struct JsonFile {
  nlohmann::json root;  // without what follows

  bool has_vocabulary = false;  // model.vocab is there, and an object
  TextList vocabulary;          // in the order of the file
  std::vector<int64_t> ids;     // of the same; at least 0, at most kTooLarge

  bool has_merges = false;
  TextList left, right;  // by place in model.merges; two empty texts for a line "#version"
};

/// Parses the whole. Fails with kMalformed, kUnsupported or kLimit, naming the place: what is no JSON, has a
/// key twice, is nested deeper or has more values than allowed, and a vocabulary or merges of wrong types.
/// No recursion. Memory stays below some ten times the text's size.
Result<JsonFile> parse_json(std::string_view text);

/// A value with its place in the file, for messages. Borrows the file.
class JsonValue {
 public:
  JsonValue(const nlohmann::json& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  bool is_text() const { return value_->is_string(); }
  bool is_object() const { return value_->is_object(); }
  bool is_array() const { return value_->is_array(); }

  /// A member of an object; nothing where there is none, or null.
  std::optional<JsonValue> find(std::string_view key) const;
  /// A member that must be there.
  Result<JsonValue> at(std::string_view key) const;
  /// The elements of an array, at most `limit`.
  Result<std::vector<JsonValue>> items(size_t limit) const;
  /// The members of an object, by key.
  Result<std::vector<std::pair<std::string, JsonValue>>> members() const;

  Result<std::string> text() const;
  Result<bool> flag() const;
  Result<double> number() const;
  /// A whole number.
  Result<int64_t> integer(int64_t min, int64_t max) const;

  Result<std::string> text_at(std::string_view key) const;
  Result<std::string> text_or(std::string_view key, std::string_view fallback) const;
  Result<bool> flag_or(std::string_view key, bool fallback) const;
  Result<int64_t> integer_or(std::string_view key, int64_t min, int64_t max, int64_t fallback) const;

  /// Fails with kMalformed: "<path> is <what is there>; <wanted> is allowed".
  tl::unexpected<Error> wrong(std::string_view wanted) const;

 private:
  const nlohmann::json* value_;
  std::string path_;
};

/// "a string", "null", "-3": a value as messages call it.
std::string described(const nlohmann::json& value);

}  // namespace soli::hf
