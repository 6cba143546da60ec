#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/utf8.h"
#include "format/hf/json.h"
#include "format/tokenizer_spec.h"

namespace soli::hf {
namespace {

using nlohmann::json;

/// Takes the events of nlohmann's parser. What it refuses ends the parse, with the reason in error().
class DocumentReader final : public nlohmann::json_sax<json> {
 public:
  explicit DocumentReader(JsonFile& file) : file_(file) {}

  const std::optional<Error>& error() const { return error_; }

  bool null() override { return value(nullptr); }
  bool boolean(bool flag) override { return value(flag); }
  bool number_integer(int64_t number) override { return number_of(number, number); }
  bool number_unsigned(uint64_t number) override {
    return number_of(number, static_cast<int64_t>(std::min<uint64_t>(number, kTooLarge)));
  }
  bool number_float(double number, const std::string&) override { return value(number); }
  bool string(std::string& text) override {
    switch (region_) {
      case Region::kMerges:
        return whole_merge(text);
      case Region::kPair:
        return half_merge(text);
      default:
        return value(std::move(text));
    }
  }
  bool binary(json::binary_t&) override { return refuse(ErrorKind::kMalformed, "JSON has no binary values"); }

  bool start_object(size_t) override {
    if (at_member_of_model("vocab")) {
      region_ = Region::kVocabulary;
      file_.has_vocabulary = true;
      return true;
    }
    return open(json::object());
  }
  bool end_object() override {
    if (region_ == Region::kVocabulary) return leave();
    return close();
  }
  bool start_array(size_t) override {
    if (region_ == Region::kMerges) {
      region_ = Region::kPair;
      halves_ = 0;
      return merge_fits();
    }
    if (at_member_of_model("merges")) {
      region_ = Region::kMerges;
      file_.has_merges = true;
      return true;
    }
    return open(json::array());
  }
  bool end_array() override {
    if (region_ == Region::kPair) {
      region_ = Region::kMerges;
      return halves_ == 2 || refuse(ErrorKind::kMalformed, "{} has {} texts; a merge has two",
                                    merge_path(pair_index()), halves_);
    }
    if (region_ == Region::kMerges) return leave();
    return close();
  }
  bool key(std::string& text) override {
    if (region_ == Region::kVocabulary) {
      token_ = text;
      return true;
    }
    Frame& top = stack_.back();
    top.key = text;
    return !top.container->contains(text) || refuse(ErrorKind::kMalformed, "{} stands there twice", path());
  }

  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& reason) override {
    // nlohmann's text begins with "[json.exception.parse_error.101] ".
    std::string_view text = reason.what();
    if (const size_t end = text.find("] "); end != std::string_view::npos) text.remove_prefix(end + 2);
    return refuse(ErrorKind::kMalformed, "no JSON at byte {}: {}", byte, printable(text, 160));
  }

 private:
  enum class Region { kGeneral, kVocabulary, kMerges, kPair };
  struct Frame {
    json* container;
    std::string key;  // of the member that is being read
  };

  template <typename... Args>
  bool refuse(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
    if (!error_) error_ = Error{kind, fmt::format(format, std::forward<Args>(args)...)};
    return false;
  }

  size_t pair_index() const { return file_.left.size() - (halves_ > 0); }
  static std::string merge_path(size_t index) { return fmt::format("model.merges[{}]", index); }

  /// Where the parse is.
  std::string path() const {
    if (region_ == Region::kVocabulary) return fmt::format("model.vocab['{}']", printable(token_));
    if (region_ == Region::kMerges) return merge_path(file_.left.size());
    if (region_ == Region::kPair) return merge_path(pair_index());
    std::string out;
    for (const Frame& frame : stack_) {
      if (frame.container->is_array()) {
        // An element that is open is in its array already.
        out += fmt::format("[{}]", frame.container->size() - (&frame == &stack_.back() ? 0 : 1));
      } else {
        if (!out.empty()) out.push_back('.');
        out += printable(frame.key);
      }
    }
    return out.empty() ? "the file" : out;
  }

  bool at_member_of_model(std::string_view name) const {
    return region_ == Region::kGeneral && stack_.size() == 2 && stack_[0].key == "model" &&
           stack_[1].container->is_object() && stack_[1].key == name;
  }

  template <typename Number>
  bool number_of(Number number, int64_t clamped) {
    if (region_ != Region::kVocabulary) return value(number);
    if (clamped < 0) {
      return refuse(ErrorKind::kMalformed, "{} is {}; ids are 0 or more", path(), number);
    }
    if (file_.ids.size() == kMaxVocabularyTokens) {
      return refuse(ErrorKind::kLimit, "model.vocab has more than the {} tokens allowed",
                    kMaxVocabularyTokens);
    }
    if (!fits(token_)) return false;
    file_.vocabulary.push_back(token_);
    file_.ids.push_back(clamped);
    return true;
  }

  bool fits(std::string_view text) {
    return text.size() <= kMaxTokenBytes ||
           refuse(ErrorKind::kLimit, "{} has {} bytes; {} are allowed", path(), text.size(), kMaxTokenBytes);
  }
  bool merge_fits() {
    return file_.left.size() < kMaxVocabularyMerges ||
           refuse(ErrorKind::kLimit, "model.merges has more than the {} entries allowed",
                  kMaxVocabularyMerges);
  }

  bool whole_merge(std::string_view text) {
    if (!merge_fits()) return false;
    if (text.starts_with("#version")) {  // the first line of the older merges.txt
      file_.left.push_back("");
      file_.right.push_back("");
      return true;
    }
    const size_t blank = text.find(' ');
    if (blank == std::string_view::npos || blank == 0 || blank + 1 == text.size() ||
        text.find(' ', blank + 1) != std::string_view::npos) {
      return refuse(ErrorKind::kMalformed, "{} is '{}'; it must be two tokens with one blank between", path(),
                    printable(text));
    }
    if (!fits(text.substr(0, blank)) || !fits(text.substr(blank + 1))) return false;
    file_.left.push_back(text.substr(0, blank));
    file_.right.push_back(text.substr(blank + 1));
    return true;
  }

  bool half_merge(std::string_view text) {
    if (!fits(text)) return false;
    if (text.empty()) return refuse(ErrorKind::kMalformed, "{} has a text that is empty", path());
    if (halves_ > 1) {
      return refuse(ErrorKind::kMalformed, "{} has more than two texts", path());
    }
    (halves_ == 0 ? file_.left : file_.right).push_back(text);
    ++halves_;
    return true;
  }

  /// A value other than those of the vocabulary and of the merges.
  template <typename T>
  bool value(T&& content) {
    if (region_ == Region::kVocabulary) {
      return refuse(ErrorKind::kMalformed, "{} is {}; a whole number is allowed", path(), described(content));
    }
    if (region_ == Region::kMerges || region_ == Region::kPair) {
      return refuse(ErrorKind::kMalformed, "{} is {}; a merge is a string, or an array of two strings",
                    path(), described(content));
    }
    return add(std::forward<T>(content)) != nullptr;
  }

  json* add(json content) {
    if (++n_values_ > kMaxJsonValues) {
      refuse(ErrorKind::kLimit, "more than the {} values allowed", kMaxJsonValues);
      return nullptr;
    }
    if (stack_.empty()) {
      file_.root = std::move(content);
      return &file_.root;
    }
    const Frame& top = stack_.back();
    if (top.container->is_array()) {
      top.container->push_back(std::move(content));
      return &top.container->back();
    }
    json& member = (*top.container)[top.key];
    member = std::move(content);
    return &member;
  }

  bool open(json container) {
    if (region_ != Region::kGeneral) return value(std::move(container));
    if (stack_.size() == kMaxJsonDepth) {
      return refuse(ErrorKind::kLimit, "nested deeper than the {} levels allowed", kMaxJsonDepth);
    }
    json* const added = add(std::move(container));
    if (added == nullptr) return false;
    stack_.push_back({added, ""});
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  /// Ends the vocabulary or the merges. An empty value stands for them, so that a second one is seen.
  bool leave() {
    region_ = Region::kGeneral;
    return add(nullptr) != nullptr;
  }

  JsonFile& file_;
  std::vector<Frame> stack_;  // pointers into file_.root: a container is complete before its parent grows
  Region region_ = Region::kGeneral;
  std::string token_;
  int halves_ = 0;
  size_t n_values_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<JsonFile> parse_json(std::string_view text) {
  JsonFile file;
  DocumentReader reader(file);
  const bool complete = json::sax_parse(text.begin(), text.end(), &reader);
  if (reader.error()) return tl::unexpected<Error>(*reader.error());
  if (!complete) return fail(ErrorKind::kMalformed, "no JSON");
  return file;
}

}  // namespace soli::hf
