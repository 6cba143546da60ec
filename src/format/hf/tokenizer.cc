#include "format/hf/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/utf8.h"
#include "format/hf/added_tokens.h"
#include "format/hf/bpe.h"
#include "format/hf/decoder.h"
#include "format/hf/json.h"
#include "format/hf/post_processor.h"
#include "format/hf/pretokenizer.h"
#include "format/hf/vocabulary.h"
#include "format/tokenizer_base.h"
#include "io/file.h"

namespace soli::hf {
namespace {

/// What comes before and after the model.
struct Stages {
  Normalizer normalizer;
  AddedTokenFinder added;
  PreTokenizer pretokenizer;
  Surroundings around;
};

class HuggingFaceTokenizer final : public VocabularyTokenizer {
 public:
  HuggingFaceTokenizer(Vocabulary vocabulary, Stages stages)
      : VocabularyTokenizer(std::move(vocabulary), "BPE of a tokenizer.json"), stages_(std::move(stages)) {}

  Status build(const JsonFile& file, const JsonValue& model) {
    SOLI_ASSIGN_OR_RETURN(BytePairModel read, BytePairModel::read(file, model, vocabulary_));
    model_.emplace(std::move(read));
    return {};
  }

  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options) const override {
    std::string repaired;
    SOLI_ASSIGN_OR_RETURN(text, encodable(text, repaired));
    std::vector<int32_t> ids;
    if (options.add_special) ids = stages_.around.before;
    for (const TextFragment& fragment : stages_.added.split(text, false, options.parse_special)) {
      if (fragment.id >= 0) {
        ids.push_back(fragment.id);
        continue;
      }
      const bool begins = fragment.span.begin == 0;
      SOLI_RETURN_IF_ERROR(encode_raw(fragment.span.of(text), begins, options.parse_special, ids));
    }
    if (options.add_special) ids.insert(ids.end(), stages_.around.after.begin(), stages_.around.after.end());
    return ids;
  }

 private:
  /// A part without the tokens that are found before normalization.
  Status encode_raw(std::string_view part, bool begins, bool parse_special, std::vector<int32_t>& ids) const {
    SOLI_ASSIGN_OR_RETURN(const std::string text, stages_.normalizer.apply(std::string(part)));
    for (const TextFragment& fragment : stages_.added.split(text, true, parse_special)) {
      if (fragment.id >= 0) {
        ids.push_back(fragment.id);
        continue;
      }
      std::string inner(fragment.span.of(text));
      SOLI_RETURN_IF_ERROR(encode_normalized(std::move(inner), begins && fragment.span.begin == 0, ids));
    }
    return {};
  }

  Status encode_normalized(std::string part, bool begins, std::vector<int32_t>& ids) const {
    SOLI_ASSIGN_OR_RETURN(const Words words, stages_.pretokenizer.apply(std::move(part), begins));
    WordMerger merger = model_->merger();
    for (const TextSpan word : words.parts) {
      SOLI_RETURN_IF_ERROR(model_->encode(word.of(words.text), merger, ids));
    }
    return {};
  }

  Stages stages_;
  std::optional<BytePairModel> model_;  // refers to the vocabulary
};

/// Puts BOS and EOS where the configuration wants them, whatever the file does.
Status apply_config(const TokenizerConfig& config, const TokenizerSpec& spec, Surroundings& around) {
  const auto apply = [](const char* name, std::optional<bool> add, std::optional<int64_t> id,
                        std::vector<int32_t>& ids, bool in_front) -> Status {
    if (!add) return {};
    if (!id) {
      if (!*add) return {};
      return fail(ErrorKind::kMalformed, "add_{0}_token is true, but there is no {0}_token", name);
    }
    const auto token = static_cast<int32_t>(*id);
    if (!*add) {
      std::erase(ids, token);
    } else if (std::find(ids.begin(), ids.end(), token) == ids.end()) {
      ids.insert(in_front ? ids.begin() : ids.end(), token);
    }
    return {};
  };
  SOLI_RETURN_IF_ERROR(apply("bos", config.add_bos, spec.bos, around.before, true));
  return apply("eos", config.add_eos, spec.eos, around.after, false);
}

bool has(const std::vector<int32_t>& ids, std::optional<int32_t> id) {
  return id && std::find(ids.begin(), ids.end(), *id) != ids.end();
}

/// The stages other than the model, and the ids of BOS and EOS.
Result<Stages> read_stages(const JsonValue& root, const std::vector<AddedToken>& added,
                           const TokenizerConfig& config, TokenizerSpec& spec) {
  Stages stages;
  if (const auto value = root.find("normalizer")) {
    SOLI_ASSIGN_OR_RETURN(stages.normalizer, Normalizer::read(*value));
  }
  SOLI_ASSIGN_OR_RETURN(stages.added, AddedTokenFinder::create(added, stages.normalizer));
  if (const auto value = root.find("pre_tokenizer")) {
    SOLI_ASSIGN_OR_RETURN(stages.pretokenizer, PreTokenizer::read(*value));
  }
  if (const auto value = root.find("post_processor")) {
    SOLI_ASSIGN_OR_RETURN(stages.around,
                          read_post_processor(*value, static_cast<int32_t>(spec.tokens.size())));
  }
  SOLI_ASSIGN_OR_RETURN(spec.bos, find_special("bos_token", config.bos, stages.around.before, spec));
  SOLI_ASSIGN_OR_RETURN(spec.eos, find_special("eos_token", config.eos, stages.around.after, spec));
  SOLI_RETURN_IF_ERROR(apply_config(config, spec, stages.around));
  return stages;
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_tokenizer(std::string_view json, const TokenizerConfig& config) {
  SOLI_ASSIGN_OR_RETURN(const JsonFile file, parse_json(json));
  const JsonValue root(file.root, "");
  SOLI_ASSIGN_OR_RETURN(const JsonValue model, root.at("model"));
  SOLI_RETURN_IF_ERROR(check_model(file, model));
  std::vector<AddedToken> added;
  if (const auto list = root.find("added_tokens")) {
    SOLI_ASSIGN_OR_RETURN(added, read_added_tokens(*list, kMaxVocabularyTokens - 1));
  }
  SOLI_ASSIGN_OR_RETURN(TokenizerSpec spec, collect_tokens(file, added));
  SOLI_ASSIGN_OR_RETURN(Stages stages, read_stages(root, added, config, spec));
  Decoder decoder;
  if (const auto value = root.find("decoder")) {
    SOLI_ASSIGN_OR_RETURN(decoder, Decoder::read(*value));
  }
  spec.chat_templates = config.chat_templates;
  SOLI_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::build(spec, [&](std::string_view token) {
                          return decoder.piece(token);
                        }));
  SOLI_RETURN_IF_ERROR(check_unique(file, added, vocabulary));
  vocabulary.add_bos = has(stages.around.before, vocabulary.bos);
  vocabulary.add_eos = has(stages.around.after, vocabulary.eos);
  vocabulary.add_space_prefix = decoder.strips_blank();
  auto tokenizer = std::make_unique<HuggingFaceTokenizer>(std::move(vocabulary), std::move(stages));
  SOLI_RETURN_IF_ERROR(tokenizer->build(file, model));
  return tokenizer;
}

}  // namespace soli::hf

namespace soli {

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_hugging_face(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string file = fs::is_directory(path, ignored) ? path + "/tokenizer.json" : path;
  SOLI_ASSIGN_OR_RETURN(const std::string json, read_file(file, hf::kMaxTokenizerBytes));
  const std::string folder = fs::path(file).parent_path().string();
  SOLI_ASSIGN_OR_RETURN(const hf::TokenizerConfig config, hf::read_config(folder.empty() ? "." : folder));
  auto tokenizer = hf::make_tokenizer(json, config);
  if (!tokenizer) return in_context(file, std::move(tokenizer).error());
  return tokenizer;
}

}  // namespace soli
