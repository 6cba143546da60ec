#pragma once

// The key-value part of a GGUF file, kept compactly: an array is one block of bytes, a list of strings
// one block of characters and one of ends, so that a vocabulary of 256k tokens takes little more than its
// text.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace soli {

/// Value types of the format, with the ids that files carry.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

/// Bytes of one value in a file, or 0 for strings, arrays and ids that the format does not define.
int64_t gguf_type_bytes(GgufType type);
/// "u32", "str", "arr"; "type 99" for an id that the format does not define.
std::string gguf_type_name(GgufType type);

/// A borrowed list of strings; valid as long as the metadata that it came from.
class GgufStrings {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = std::string_view;

    Iterator(const GgufStrings* list, size_t index) : list_(list), index_(index) {}
    std::string_view operator*() const { return (*list_)[index_]; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++index_;
      return before;
    }
    bool operator==(const Iterator& other) const = default;

   private:
    const GgufStrings* list_;
    size_t index_;
  };

  GgufStrings() = default;
  /// String i is text[ends[i - 1], ends[i]), the first from 0.
  GgufStrings(std::string_view text, std::span<const uint32_t> ends) : text_(text), ends_(ends) {}

  size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  std::string_view operator[](size_t i) const {
    const uint32_t begin = i == 0 ? 0 : ends_[i - 1];
    return text_.substr(begin, ends_[i] - begin);
  }
  Iterator begin() const { return Iterator(this, 0); }
  Iterator end() const { return Iterator(this, size()); }

 private:
  std::string_view text_;
  std::span<const uint32_t> ends_;
};

/// One value: a scalar, a string, or an array of scalars or strings.
struct GgufValue {
  GgufType type = GgufType::kUint32;
  GgufType element = GgufType::kUint32;  // of an array
  uint64_t count = 1;                    // elements of an array
  std::string bytes;                     // little-endian scalars, or the text of all strings end to end
  std::vector<uint32_t> ends;            // where each string of an array of strings ends in `bytes`

  static GgufValue of_uint16(uint16_t value);
  static GgufValue of_uint32(uint32_t value);
  static GgufValue of_uint64(uint64_t value);
  static GgufValue of_int32(int32_t value);
  static GgufValue of_float(float value);
  static GgufValue of_bool(bool value);
  static GgufValue of_string(std::string_view value);
  static GgufValue of_strings(std::span<const std::string> values);
  static GgufValue of_int32s(std::span<const int32_t> values);
  static GgufValue of_uint32s(std::span<const uint32_t> values);
  static GgufValue of_uint64s(std::span<const uint64_t> values);
  static GgufValue of_floats(std::span<const float> values);
};

/// All keys of a file with their values. Every error names the file, the key, what was found there and what
/// is wanted. The `_or` variants take the fallback only for a key that is absent: a wrong type stays an
/// error.
class GgufMetadata {
 public:
  struct Entry {
    std::string key;
    GgufValue value;
  };
  /// One line of a listing: "llama.block_count", "u32", "32". Strings and arrays are cut short; the value is
  /// printable.
  struct Line {
    std::string key;
    std::string type;
    std::string value;
  };

  GgufMetadata() = default;
  /// `source` is the file's path, for errors. Fails with kMalformed if two entries have one key.
  static Result<GgufMetadata> build(std::string source, std::vector<Entry> entries);

  size_t size() const { return entries_.size(); }
  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<Line> listing() const;

  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// The value, or nullptr. Tells a scalar from an array where a key may be either (such as head_count_kv).
  const GgufValue* find(std::string_view key) const;
  bool is_array(std::string_view key) const;

  /// Any integer type, at least 0.
  Result<uint64_t> get_uint(std::string_view key) const;
  Result<uint64_t> get_uint_or(std::string_view key, uint64_t fallback) const;
  /// Any float or integer type; must be finite.
  Result<double> get_float(std::string_view key) const;
  Result<double> get_float_or(std::string_view key, double fallback) const;
  Result<bool> get_bool(std::string_view key) const;
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;
  /// Borrowed from the metadata.
  Result<std::string_view> get_string(std::string_view key) const;
  Result<std::string_view> get_string_or(std::string_view key, std::string_view fallback) const;
  /// An array of any integer type whose values fit.
  Result<std::vector<int64_t>> get_ints(std::string_view key) const;
  /// An array of u64, where every bit counts, such as checksums.
  Result<std::vector<uint64_t>> get_uint64s(std::string_view key) const;
  /// An array of floats; values may be infinite or NaN, as in the scores of some vocabularies.
  Result<std::vector<float>> get_floats(std::string_view key) const;
  Result<std::vector<bool>> get_bools(std::string_view key) const;
  /// Borrowed from the metadata.
  Result<GgufStrings> get_strings(std::string_view key) const;

 private:
  Result<const GgufValue*> require(std::string_view key) const;
  tl::unexpected<Error> wrong_type(std::string_view key, const GgufValue& found,
                                   std::string_view wanted) const;
  Result<const GgufValue*> require_array(std::string_view key, std::string_view wanted) const;

  std::string source_;
  std::vector<Entry> entries_;    // in the order of the file
  std::vector<uint32_t> by_key_;  // indices of entries_, sorted by key
};

}  // namespace soli
