#include "cli/model_summary.h"

#include <map>

#include "cli/memory_need.h"
#include "cli/precision.h"
#include "format/chat_template.h"
#include "format/tokenizer.h"
#include "model/forward.h"
#include "model/synth.h"

namespace soli::cli {
namespace {

/// One line for each template that the file carries, with commas between.
std::string describe_chat_templates(const Tokenizer& tokenizer) {
  std::string text;
  for (const ChatTemplateText& one : tokenizer.chat_templates()) {
    const Result<ChatTemplate> parsed = ChatTemplate::parse(one.text);
    text += fmt::format("{}{}, {} bytes{}", text.empty() ? "" : "; ", one.name, one.text.size(),
                        parsed ? "" : ", not usable: " + parsed.error().message);
  }
  return text.empty() ? "none" : text;
}

void describe_texts(const ModelFile& file, ModelSummary& summary) {
  const Result<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::from_gguf(file.gguf());
  if (tokenizer) {
    summary.tokenizer = (*tokenizer)->description();
    summary.chat_template = describe_chat_templates(**tokenizer);
  } else {
    summary.tokenizer = "not readable: " + tokenizer.error().message;
    summary.chat_template = "not usable without a tokenizer";
  }
}

std::vector<TypeSummary> summarise_types(const ModelFile& file, const kernels::KernelTable& kernels) {
  std::map<uint32_t, TypeSummary> by_type;
  for (const GgufTensor* tensor : file.tensors()) {
    TypeSummary& summary = by_type[tensor->type];
    summary.type = tensor->type;
    summary.n_tensors += 1;
    summary.elements += tensor->elements();
    summary.bytes += tensor->bytes;
    summary.supported = kernels.find(tensor->type) != nullptr;
  }
  for (const uint32_t type : matrix_types(file)) {
    TypeSummary& summary = by_type[type];
    summary.has_matrices = true;
    summary.with_act_f32 = effective_precision(kernels, type, ActivationPrecision::kF32);
    summary.with_act_q8 = effective_precision(kernels, type, ActivationPrecision::kQ8);
  }
  std::vector<TypeSummary> types;
  for (const auto& [type, summary] : by_type) types.push_back(summary);
  return types;
}

}  // namespace

ModelSummary summarise(const ModelFile& file, Runtime& runtime) {
  ModelSummary summary;
  summary.file = &file;
  describe_texts(file, summary);
  summary.counts = count_parameters(file);
  summary.active = summary.counts.active_with_k(file.spec());
  summary.types = summarise_types(file, runtime.kernels());
  if (const Result<WeightBytes> weights = count_weight_bytes(file, runtime)) {
    summary.resident_bytes = weights->shared + weights->experts;
  }
  summary.kv_position_bytes_f32 = KvLayout(file.spec(), KvType::kF32).position_bytes();
  summary.kv_position_bytes_f16 = KvLayout(file.spec(), KvType::kF16).position_bytes();
  return summary;
}

Result<ShapeSummary> ShapeSummary::of(std::string_view name) {
  SOLI_ASSIGN_OR_RETURN(const SynthOptions options, synth_preset(name));
  ShapeSummary summary;
  summary.name = name;
  SOLI_ASSIGN_OR_RETURN(summary.spec, complete_synth_spec(options));
  const Family& family = *find_family(summary.spec.architecture);
  summary.counts = count_parameters(family, summary.spec, options.tied_output);
  summary.active = summary.counts.active_with_k(summary.spec);
  return summary;
}

int64_t ShapeSummary::active_with_embedding() const {
  const bool is_tied = counts.nominal[static_cast<size_t>(Part::kOutputHead)].parameters == 0;
  const int64_t embedding = counts.nominal[static_cast<size_t>(Part::kEmbedding)].parameters;
  return active.parameters - spec.hidden_size + (is_tied ? 0 : embedding);
}

int64_t ShapeSummary::active_without_vocabulary() const {
  const int64_t embedding = counts.nominal[static_cast<size_t>(Part::kEmbedding)].parameters;
  const int64_t head = counts.nominal[static_cast<size_t>(Part::kOutputHead)].parameters;
  return active.parameters - spec.hidden_size - (head == 0 ? embedding : head);
}

std::string describe_gating(const RouterSpec& router) {
  std::string text;
  switch (router.gating) {
    case Gating::kSoftmax:
      text = "softmax over all experts, then the best k";
      break;
    case Gating::kSoftmaxChosen:
      text = "the best k, then softmax over them";
      break;
    case Gating::kSigmoid:
      text = "sigmoid per expert, then the best k";
      break;
  }
  if (router.renormalise) text += ", weights renormalised";
  if (router.weight_scale != 1) text += fmt::format(", weights times {:g}", router.weight_scale);
  if (router.n_groups > 1)
    text += fmt::format(", best {} of {} groups", router.n_groups_used, router.n_groups);
  return text;
}

}  // namespace soli::cli
