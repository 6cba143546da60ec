#include "format/hf/post_processor.h"

#include <utility>

#include "base/utf8.h"
#include "format/hf/normalizer.h"

namespace soli::hf {
namespace {

constexpr size_t kMaxSurrounding = 64;  // tokens on either side

class TemplateReader {
 public:
  explicit TemplateReader(int32_t n_tokens) : n_tokens_(n_tokens) {}

  Status read(const JsonValue& value) {
    SOLI_ASSIGN_OR_RETURN(const std::string type, value.text_at("type"));
    if (type == "ByteLevel") return {};  // it is about offsets, which nobody asks for
    if (type == "TemplateProcessing") return read_template(value);
    if (type == "Sequence") {
      SOLI_ASSIGN_OR_RETURN(const JsonValue list, value.at("processors"));
      SOLI_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, list.items(kMaxSteps));
      for (const JsonValue& item : items) SOLI_RETURN_IF_ERROR(read(item));
      return {};
    }
    return fail(ErrorKind::kUnsupported,
                "{}.type is '{}'; supported are ByteLevel, Sequence and TemplateProcessing", value.path(),
                printable(type));
  }

  Surroundings take() { return std::move(around_); }

 private:
  /// A template goes around what the processors before it made.
  Status read_template(const JsonValue& value) {
    SOLI_ASSIGN_OR_RETURN(const JsonValue single, value.at("single"));
    SOLI_ASSIGN_OR_RETURN(const std::vector<JsonValue> pieces, single.items(2 * kMaxSurrounding + 1));
    std::vector<int32_t> before, after;
    bool past_text = false;
    for (const JsonValue& piece : pieces) {
      if (const auto sequence = piece.find("Sequence")) {
        SOLI_ASSIGN_OR_RETURN(const std::string id, sequence->text_at("id"));
        if (id != "A" || past_text) {
          return fail(ErrorKind::kUnsupported, "{}.id is '{}'; 'A' is supported, once", sequence->path(),
                      printable(id));
        }
        past_text = true;
        continue;
      }
      SOLI_RETURN_IF_ERROR(read_special(value, piece, past_text ? after : before));
    }
    if (!past_text) return single.wrong("a list with {\"Sequence\": {\"id\": \"A\"}}");
    around_.before.insert(around_.before.begin(), before.begin(), before.end());
    around_.after.insert(around_.after.end(), after.begin(), after.end());
    if (around_.before.size() > kMaxSurrounding || around_.after.size() > kMaxSurrounding) {
      return fail(ErrorKind::kLimit, "{} has more than the {} tokens allowed on one side", single.path(),
                  kMaxSurrounding);
    }
    return {};
  }

  Status read_special(const JsonValue& value, const JsonValue& piece, std::vector<int32_t>& out) {
    const auto special = piece.find("SpecialToken");
    if (!special) return piece.wrong("an object with 'SpecialToken' or 'Sequence'");
    SOLI_ASSIGN_OR_RETURN(const std::string name, special->text_at("id"));
    SOLI_ASSIGN_OR_RETURN(const JsonValue tokens, value.at("special_tokens"));
    const auto token = tokens.find(name);
    if (!token) {
      return fail(ErrorKind::kMalformed, "{}.id is '{}', which {} does not have", special->path(),
                  printable(name), tokens.path());
    }
    SOLI_ASSIGN_OR_RETURN(const JsonValue ids, token->at("ids"));
    SOLI_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, ids.items(kMaxSurrounding));
    for (const JsonValue& item : items) {
      SOLI_ASSIGN_OR_RETURN(const int64_t id, item.integer(0, n_tokens_ - 1));
      out.push_back(static_cast<int32_t>(id));
    }
    return {};
  }

  int32_t n_tokens_;
  Surroundings around_;
};

}  // namespace

Result<Surroundings> read_post_processor(const JsonValue& value, int32_t n_tokens) {
  TemplateReader reader(n_tokens);
  SOLI_RETURN_IF_ERROR(reader.read(value));
  return reader.take();
}

}  // namespace soli::hf
