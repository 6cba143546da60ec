#include "model/model_file.h"

#include <utility>

#include "base/utf8.h"
#include "format/tokenizer_spec.h"

namespace soli {
namespace {

std::string shape_text(const GgufTensor& tensor) {
  std::string text = "[";
  for (int i = 0; i < tensor.n_dims; ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", tensor.dims[static_cast<size_t>(i)]);
  return text + "]";
}

tl::unexpected<Error> wrong_shape(const GgufTensor& tensor, const std::string& wanted) {
  return fail(ErrorKind::kMalformed, "tensor {}: its shape is {}, and the metadata asks for {}", tensor.name,
              shape_text(tensor), wanted);
}

}  // namespace

std::string tensor_name(const std::string& pattern, int64_t layer, int64_t expert) {
  return fmt::format(fmt::runtime(pattern), layer, expert);
}

/// Gives every tensor of a file its place in the model.
class Binder {
 public:
  explicit Binder(ModelFile& file)
      : file_(file), spec_(file.spec_), claimed_(file.gguf_.tensors().size(), false) {}

  Status bind() {
    SOLI_RETURN_IF_ERROR(read_sizes_from_shapes());
    if (!spec_.is_moe()) SOLI_RETURN_IF_ERROR(refuse_experts());
    for (const LinearSlot& slot : file_.family_->linears) SOLI_RETURN_IF_ERROR(bind_slot(slot));
    for (const VectorSlot& slot : file_.family_->vectors) SOLI_RETURN_IF_ERROR(bind_slot(slot));
    file_.experts_.resize(static_cast<size_t>(spec_.n_layers));
    for (int64_t layer = 0; layer < spec_.n_layers; ++layer) {
      if (!spec_.is_moe_layer(layer)) continue;
      for (const ExpertSlot& slot : file_.family_->experts) SOLI_RETURN_IF_ERROR(bind_experts(slot, layer));
    }
    return refuse_leftovers();
  }

 private:
  const GgufTensor* find(const std::string& name) const { return file_.gguf_.find_tensor(name); }

  const GgufTensor* claim(const GgufTensor* tensor) {
    if (tensor != nullptr) claimed_[static_cast<size_t>(tensor - file_.gguf_.tensors().data())] = true;
    return tensor;
  }

  tl::unexpected<Error> missing(const std::string& name) const {
    return fail(ErrorKind::kMalformed, "tensor {} is missing, and {} needs it", name, spec_.architecture);
  }

  /// Widths come from the tensors themselves: formulas over the metadata are wrong for some files.
  Status read_sizes_from_shapes() {
    const GgufTensor* embedding = find("token_embd.weight");
    if (embedding == nullptr) return missing("token_embd.weight");
    spec_.vocab_size = embedding->dims[1];
    if (spec_.vocab_size > static_cast<int64_t>(kMaxVocabularyTokens)) {
      return fail(ErrorKind::kLimit, "tensor {}: it has {} tokens; at most {} are allowed", embedding->name,
                  spec_.vocab_size, kMaxVocabularyTokens);
    }
    take_rows("blk.{}.ffn_gate.weight", 0, spec_.ffn_width);
    if (!spec_.is_moe()) return {};
    const int64_t first_moe = spec_.n_leading_dense_layers;
    take_rows("blk.{}.ffn_gate_exps.weight", first_moe, spec_.expert_width);
    take_rows("blk.{}.ffn_gate.0.weight", first_moe, spec_.expert_width);
    take_rows("blk.{}.ffn_gate_shexp.weight", first_moe, spec_.shared_expert_width);
    return {};
  }

  void take_rows(const std::string& pattern, int64_t layer, int64_t& width) const {
    if (const GgufTensor* tensor = find(tensor_name(pattern, layer))) width = tensor->dims[1];
  }

  /// A file without an expert_count is dense; if it has experts, then the key is what is wrong.
  Status refuse_experts() const {
    for (const ExpertSlot& slot : file_.family_->experts) {
      for (int64_t layer = 0; layer < spec_.n_layers; ++layer) {
        const GgufTensor* tensor = find(tensor_name(slot.merged_pattern, layer));
        if (tensor == nullptr) tensor = find(tensor_name(slot.single_pattern, layer, 0));
        if (tensor == nullptr) continue;
        return fail(ErrorKind::kMalformed, "{}.expert_count: it is missing or 0, and there is a tensor {}",
                    spec_.architecture, tensor->name);
      }
    }
    return {};
  }

  Status bind_slot(const LinearSlot& slot) {
    return for_each_layer(slot, [&](int64_t layer) { return bind_linear(slot, layer); });
  }

  Status bind_slot(const VectorSlot& slot) {
    return for_each_layer(slot, [&](int64_t layer) { return bind_vector(slot, layer); });
  }

  /// Global slots are bound once, as layer 0.
  template <typename Slot, typename Bind>
  Status for_each_layer(const Slot& slot, const Bind& bind) {
    const bool global = slot.member.index() == 1;
    const int64_t n_layers = global ? 1 : spec_.n_layers;
    for (int64_t layer = 0; layer < n_layers; ++layer) {
      if (global || has_layer(spec_, slot.layers, layer)) SOLI_RETURN_IF_ERROR(bind(layer));
    }
    return {};
  }

  Status bind_linear(const LinearSlot& slot, int64_t layer) {
    BoundLinear bound = {.slot = &slot, .layer = layer};
    const std::string name = tensor_name(slot.pattern, layer);
    const int64_t rows = size_of(spec_, slot.rows);
    const int64_t cols = size_of(spec_, slot.cols);
    if (const GgufTensor* tensor = claim(find(name))) {
      if (tensor->dims != std::array<int64_t, 4>{cols, rows, 1, 1}) {
        return wrong_shape(*tensor, fmt::format("[{}, {}]", cols, rows));
      }
      if (!slot.fused_pattern.empty() && find(tensor_name(slot.fused_pattern, layer)) != nullptr) {
        return fail(ErrorKind::kMalformed, "tensor {}: {} is there too, and only one of them can hold",
                    tensor->name, tensor_name(slot.fused_pattern, layer));
      }
      bound.weight = {tensor, 0, rows, cols};
      SOLI_RETURN_IF_ERROR(bind_bias(slot, layer, slot.bias_pattern, 0, rows, bound));
    } else if (const GgufTensor* fused = slot.fused_pattern.empty()
                                             ? nullptr
                                             : claim(find(tensor_name(slot.fused_pattern, layer)))) {
      SOLI_RETURN_IF_ERROR(bind_fused(slot, layer, *fused, rows, cols, bound));
    } else if (slot.required) {
      return missing(name);
    } else {
      return {};
    }
    if (slot.part == Part::kOutputHead) file_.output_is_tied_ = false;
    file_.linears_.push_back(bound);
    return {};
  }

  Status bind_fused(const LinearSlot& slot, int64_t layer, const GgufTensor& fused, int64_t rows,
                    int64_t cols, BoundLinear& bound) {
    int64_t first_row = 0;
    for (const Dim dim : slot.fused_before) first_row += size_of(spec_, dim);
    const int64_t all_rows =
        size_of(spec_, Dim::kQueryRow) + size_of(spec_, Dim::kKeyRow) + size_of(spec_, Dim::kValueRow);
    if (fused.dims != std::array<int64_t, 4>{cols, all_rows, 1, 1}) {
      return wrong_shape(fused, fmt::format("[{}, {}]", cols, all_rows));
    }
    bound.weight = {&fused, first_row, rows, cols};
    return bind_bias(slot, layer, "blk.{}.attn_qkv.bias", first_row, all_rows, bound);
  }

  Status bind_bias(const LinearSlot& slot, int64_t layer, const std::string& pattern, int64_t first,
                   int64_t all_rows, BoundLinear& bound) {
    if (pattern.empty()) return {};
    const std::string name = tensor_name(pattern, layer);
    const GgufTensor* bias = claim(find(name));
    if (bias == nullptr) return slot.bias_required ? Status(missing(name)) : Status();
    if (bias->dims != std::array<int64_t, 4>{all_rows, 1, 1, 1})
      return wrong_shape(*bias, fmt::format("[{}]", all_rows));
    if (bias->type != kGgmlF32) {
      return fail(ErrorKind::kUnsupported, "tensor {}: a bias of type {} is not supported; F32 is", name,
                  ggml_type_name(bias->type));
    }
    bound.bias = bias;
    bound.bias_first = first;
    return {};
  }

  Status bind_vector(const VectorSlot& slot, int64_t layer) {
    const std::string name = tensor_name(slot.pattern, layer);
    const GgufTensor* tensor = claim(find(name));
    if (tensor == nullptr) return slot.required ? Status(missing(name)) : Status();
    const int64_t size = size_of(spec_, slot.size);
    if (tensor->elements() != size || tensor->dims[0] != size)
      return wrong_shape(*tensor, fmt::format("[{}]", size));
    file_.vectors_.push_back({&slot, layer, {tensor, 0, 1, size}});
    return {};
  }

  Status bind_experts(const ExpertSlot& slot, int64_t layer) {
    const int64_t n_experts = spec_.router.n_experts;
    const int64_t rows = size_of(spec_, slot.rows);
    const int64_t cols = size_of(spec_, slot.cols);
    auto& bound = file_.experts_[static_cast<size_t>(layer)][static_cast<size_t>(slot.which)];
    bound.reserve(static_cast<size_t>(n_experts));
    const std::string merged_name = tensor_name(slot.merged_pattern, layer);
    if (const GgufTensor* merged = claim(find(merged_name))) {
      if (merged->dims != std::array<int64_t, 4>{cols, rows, n_experts, 1}) {
        return wrong_shape(*merged, fmt::format("[{}, {}, {}] ({}.expert_count is {})", cols, rows, n_experts,
                                                spec_.architecture, n_experts));
      }
      for (int64_t e = 0; e < n_experts; ++e) bound.push_back({merged, e * rows, rows, cols});
      return {};
    }
    for (int64_t e = 0; e < n_experts; ++e) {
      const GgufTensor* single = claim(find(tensor_name(slot.single_pattern, layer, e)));
      if (single == nullptr) {
        const bool none = e == 0 && find(tensor_name(slot.single_pattern, layer, 1)) == nullptr;
        return missing(none ? merged_name : tensor_name(slot.single_pattern, layer, e));
      }
      if (single->dims != std::array<int64_t, 4>{cols, rows, 1, 1}) {
        return wrong_shape(*single, fmt::format("[{}, {}]", cols, rows));
      }
      bound.push_back({single, 0, rows, cols});
    }
    return {};
  }

  Status refuse_leftovers() const {
    for (size_t i = 0; i < claimed_.size(); ++i) {
      if (claimed_[i]) continue;
      const GgufTensor& tensor = file_.gguf_.tensors()[i];
      return fail(ErrorKind::kUnsupported,
                  "tensor {}: a {} model with {} layers and {}.expert_count {} has no place for it",
                  tensor.name, spec_.architecture, spec_.n_layers, spec_.architecture,
                  spec_.router.n_experts);
    }
    return {};
  }

  ModelFile& file_;
  ModelSpec& spec_;
  std::vector<bool> claimed_;  // by index of GgufFile::tensors()
};

Result<ModelFile> ModelFile::open(const std::string& path) {
  SOLI_ASSIGN_OR_RETURN(GgufFile gguf, GgufFile::open(path));
  ModelFile file(std::move(gguf));
  const auto understand = [&]() -> Status {
    SOLI_ASSIGN_OR_RETURN(const std::string_view architecture,
                          file.gguf_.metadata().get_string("general.architecture"));
    file.family_ = find_family(architecture);
    if (file.family_ == nullptr) {
      return fail(ErrorKind::kUnsupported, "general.architecture: '{}' is not supported; these are: {}",
                  printable(architecture), fmt::join(family_names(), ", "));
    }
    SOLI_ASSIGN_OR_RETURN(file.spec_, read_spec(file.gguf_, *file.family_));
    return Binder(file).bind();
  };
  if (Status status = understand(); !status) return in_context(path, std::move(status).error());
  return file;
}

}  // namespace soli
