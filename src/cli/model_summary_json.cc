// ModelSummary as JSON: every figure exact.
#include "cli/model_options.h"
#include "cli/model_summary.h"

namespace soli::cli {
namespace {

using Json = nlohmann::ordered_json;

Json size_json(const PartSize& size) { return {{"parameters", size.parameters}, {"bytes", size.bytes}}; }

Json precision_json(const std::optional<std::string_view>& precision) {
  return precision ? Json(*precision) : Json();
}

Json file_json(const GgufFile& gguf) {
  Json json = {{"gguf_version", gguf.version()}, {"bytes", gguf.file_bytes()}, {"shards", Json::array()}};
  for (int i = 0; i < gguf.n_shards(); ++i) {
    json["shards"].push_back({{"path", gguf.shard(i).path()}, {"bytes", gguf.shard(i).size()}});
  }
  return json;
}

Json packed_json(const PackedExperts* packed) {
  if (packed == nullptr) return {};
  int64_t bytes = 0;
  for (const GgufTensor* tensor : packed->tensors()) bytes += tensor->bytes;
  return {{"version", kPackVersion},
          {"layout", kPackLayout},
          {"stripes", packed->n_stripes()},
          {"extent_bytes", bytes}};
}

Json spec_json(const ModelSpec& spec) {
  return {{"layers", spec.n_layers},
          {"moe_layers", spec.n_moe_layers()},
          {"hidden_size", spec.hidden_size},
          {"vocabulary", spec.vocab_size},
          {"context_length", spec.context_length},
          {"heads", spec.n_heads},
          {"kv_heads", spec.n_kv_heads},
          {"head_dim", spec.head_dim},
          {"value_dim", spec.value_dim},
          {"latent_rank", spec.latent_rank},
          {"sliding_window", spec.sliding_window},
          {"window_layers", spec.n_window_layers()},
          {"ffn_width", spec.ffn_width},
          {"experts", spec.router.n_experts},
          {"experts_per_token", spec.router.experts_per_token},
          {"expert_width", spec.expert_width},
          {"shared_expert_width", spec.shared_expert_width},
          {"gating", spec.is_moe() ? Json(describe_gating(spec.router)) : Json()}};
}

Json types_json(const std::vector<TypeSummary>& types) {
  Json json = Json::array();
  for (const TypeSummary& type : types) {
    json.push_back({{"type", ggml_type_name(type.type)},
                    {"tensors", type.n_tensors},
                    {"elements", type.elements},
                    {"bytes", type.bytes},
                    {"bits_per_weight", type.bits_per_weight()},
                    {"supported", type.supported},
                    {"activations_with_act_f32", precision_json(type.with_act_f32)},
                    {"activations_with_act_q8", precision_json(type.with_act_q8)}});
  }
  return json;
}

Json tensors_json(const GgufFile& gguf) {
  Json json = Json::array();
  for (const GgufTensor& tensor : gguf.tensors()) {
    json.push_back(
        {{"name", tensor.name},
         {"type", ggml_type_name(tensor.type)},
         {"dimensions", std::vector<int64_t>(tensor.dims.begin(), tensor.dims.begin() + tensor.n_dims)},
         {"bytes", tensor.bytes},
         {"shard", tensor.shard},
         {"offset", tensor.offset}});
  }
  return json;
}

/// By part; bytes where there is a file to count them in.
Json parts_json(const ParameterCounts& counts, bool with_bytes) {
  Json parts = Json::object();
  for (int part = 0; part < kParts; ++part) {
    const PartSize& size = counts.nominal[static_cast<size_t>(part)];
    parts[std::string(soli::name_of(static_cast<Part>(part)))] =
        with_bytes ? size_json(size) : Json{{"parameters", size.parameters}};
  }
  return parts;
}

}  // namespace

nlohmann::ordered_json to_json(const ShapeSummary& summary) {
  return {{"name", summary.name},
          {"family", summary.spec.architecture},
          {"shape", spec_json(summary.spec)},
          {"parts", parts_json(summary.counts, false)},
          {"nominal_parameters", summary.counts.nominal_total.parameters},
          {"active_parameters_per_token", summary.active.parameters},
          {"active_parameters_with_whole_embedding", summary.active_with_embedding()},
          {"active_parameters_without_vocabulary", summary.active_without_vocabulary()}};
}

nlohmann::ordered_json to_json(const ModelSummary& summary, bool with_tensors) {
  const ModelFile& file = *summary.file;
  Json json = {{"name", file.spec().name},
               {"family", file.spec().architecture},
               {"file", file_json(file.gguf())},
               {"packed", packed_json(file.packed())},
               {"tokenizer", summary.tokenizer},
               {"chat_template", summary.chat_template},
               {"shape", spec_json(file.spec())},
               {"parts", parts_json(summary.counts, true)},
               {"nominal", size_json(summary.counts.nominal_total)},
               {"active_per_token", size_json(summary.active)},
               {"activation_ratio", summary.activation_ratio()},
               {"types", types_json(summary.types)},
               {"resident_bytes", summary.resident_bytes ? Json(*summary.resident_bytes) : Json()},
               {"kv_bytes_per_position",
                {{"f32", summary.kv_position_bytes_f32}, {"f16", summary.kv_position_bytes_f16}}}};
  if (with_tensors) json["tensors"] = tensors_json(file.gguf());
  return json;
}

}  // namespace soli::cli
