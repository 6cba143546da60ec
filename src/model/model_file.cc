#include "model/model_file.h"

#include <algorithm>
#include <charconv>
#include <set>
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
    if (PackedExperts::is_packed(file_.gguf_.metadata())) SOLI_RETURN_IF_ERROR(bind_packed());
    for (const LinearSlot& slot : file_.family_->linears) SOLI_RETURN_IF_ERROR(bind_slot(slot));
    for (const VectorSlot& slot : file_.family_->vectors) SOLI_RETURN_IF_ERROR(bind_slot(slot));
    SOLI_RETURN_IF_ERROR(require_long_rope_factors());
    file_.experts_.resize(static_cast<size_t>(spec_.n_layers));
    file_.expert_biases_.resize(static_cast<size_t>(spec_.n_layers));
    for (int64_t layer = 0; layer < spec_.n_layers; ++layer) {
      if (!spec_.is_moe_layer(layer)) continue;
      for (const ExpertSlot& slot : file_.family_->experts) {
        SOLI_RETURN_IF_ERROR(bind_experts(slot, layer));
        SOLI_RETURN_IF_ERROR(bind_expert_biases(slot, layer));
      }
    }
    ignore_what_is_not_computed();
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
    int64_t layer = 0;
    while (!spec_.is_moe_layer(layer)) ++layer;
    SOLI_RETURN_IF_ERROR(read_expert_width(layer));
    const std::string shared = "blk.{}.ffn_gate_shexp.weight";
    take_rows(shared, layer, spec_.shared_expert_width);
    if (spec_.n_shared_experts > 0 && spec_.shared_expert_width == 0)
      return missing(tensor_name(shared, layer));
    return {};
  }

  Status read_expert_width(int64_t layer) {
    const GgufMetadata& metadata = file_.gguf_.metadata();
    if (PackedExperts::is_packed(metadata)) {
      SOLI_ASSIGN_OR_RETURN(spec_.expert_width, PackedExperts::read_expert_width(metadata));
      return {};
    }
    take_rows("blk.{}.ffn_gate_exps.weight", layer, spec_.expert_width);
    take_rows("blk.{}.ffn_gate.0.weight", layer, spec_.expert_width);
    const GgufTensor* both = find(tensor_name(kGateAndUpPattern, layer));
    if (both != nullptr && find(tensor_name("blk.{}.ffn_gate_exps.weight", layer)) == nullptr)
      spec_.expert_width = both->dims[1] / 2;
    return {};
  }

  void take_rows(const std::string& pattern, int64_t layer, int64_t& width) const {
    if (const GgufTensor* tensor = find(tensor_name(pattern, layer))) width = tensor->dims[1];
  }

  /// Without its factors, longrope would be none.
  Status require_long_rope_factors() const {
    if (spec_.position_scaling != PositionScaling::kLongRope) return {};
    for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
      if (find(name) == nullptr) return missing(name);
    }
    return {};
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
    const int64_t n_layers = slot.is_global() ? 1 : spec_.n_layers;
    for (int64_t layer = 0; layer < n_layers; ++layer) {
      if (slot.is_global() || has_layer(spec_, slot.layers, layer)) SOLI_RETURN_IF_ERROR(bind(layer));
    }
    return {};
  }

  Status bind_linear(const LinearSlot& slot, int64_t layer) {
    const std::string name = tensor_name(slot.pattern, layer);
    const int64_t rows = size_of(spec_, slot.rows);
    const int64_t cols = size_of(spec_, slot.cols);
    if (rows == 0 || cols == 0) return {};
    const int64_t n = slot.is_per_head() ? spec_.n_heads : 1;
    if (const GgufTensor* tensor = claim(find(name))) {
      if (tensor->dims != std::array<int64_t, 4>{cols, rows, n, 1}) {
        return wrong_shape(*tensor, slot.is_per_head() ? fmt::format("[{}, {}, {}]", cols, rows, n)
                                                       : fmt::format("[{}, {}]", cols, rows));
      }
      if (find_fused(slot, layer) != nullptr && !is_ignored(slot.fused.pattern)) {
        return fail(ErrorKind::kMalformed, "tensor {}: {} is there too, and only one of them can hold",
                    tensor->name, tensor_name(slot.fused.pattern, layer));
      }
      for (int64_t head = 0; head < n; ++head) {
        file_.linears_.push_back(
            {.slot = &slot, .layer = layer, .head = head, .weight = {tensor, head * rows, rows, cols}});
      }
      if (slot.part == Part::kOutputHead) file_.output_is_tied_ = false;
      return bind_bias(slot, layer, slot.bias_pattern, 0, rows, file_.linears_.back());
    }
    if (const GgufTensor* fused = claim(find_fused(slot, layer))) return bind_fused(slot, layer, *fused);
    return slot.required ? Status(missing(name)) : Status();
  }

  const GgufTensor* find_fused(const LinearSlot& slot, int64_t layer) const {
    return slot.fused.pattern.empty() ? nullptr : find(tensor_name(slot.fused.pattern, layer));
  }

  bool is_ignored(const std::string& pattern) const {
    const auto& ignored = file_.family_->ignored;
    return std::find(ignored.begin(), ignored.end(), pattern) != ignored.end();
  }

  Status bind_fused(const LinearSlot& slot, int64_t layer, const GgufTensor& fused) {
    int64_t first_row = 0;
    int64_t part_rows = 0;  // of all parts together
    for (size_t part = 0; part < slot.fused.parts.size(); ++part) {
      const int64_t rows = size_of(spec_, slot.fused.parts[part]);
      if (part < slot.fused.part) first_row += rows;
      part_rows += rows;
    }
    const int64_t rows = size_of(spec_, slot.fused.parts[slot.fused.part]);  // as stored
    const int64_t cols = size_of(spec_, slot.fused.transposed ? slot.rows : slot.cols);
    const int64_t n = slot.is_per_head() ? spec_.n_heads : 1;
    if (fused.dims != std::array<int64_t, 4>{cols, n * part_rows, 1, 1}) {
      return wrong_shape(fused, fmt::format("[{}, {}]", cols, n * part_rows));
    }
    for (int64_t head = 0; head < n; ++head) {
      file_.linears_.push_back({.slot = &slot,
                                .layer = layer,
                                .head = head,
                                .weight = {&fused, head * part_rows + first_row, rows, cols},
                                .transposed = slot.fused.transposed});
    }
    return bind_bias(slot, layer, slot.fused.bias_pattern, first_row, part_rows, file_.linears_.back());
  }

  Status bind_bias(const LinearSlot& slot, int64_t layer, const std::string& pattern, int64_t first,
                   int64_t all_rows, BoundLinear& bound) {
    if (pattern.empty()) return {};
    const std::string name = tensor_name(pattern, layer);
    const GgufTensor* bias = claim(find(name));
    if (bias == nullptr) return slot.bias_required ? Status(missing(name)) : Status();
    if (bias->dims != std::array<int64_t, 4>{all_rows, 1, 1, 1})
      return wrong_shape(*bias, fmt::format("[{}]", all_rows));
    SOLI_RETURN_IF_ERROR(check_bias_type(*bias));
    bound.bias = bias;
    bound.bias_first = first;
    return {};
  }

  Status bind_vector(const VectorSlot& slot, int64_t layer) {
    const std::string name = tensor_name(slot.pattern, layer);
    const int64_t size = size_of(spec_, slot.size);
    if (size == 0) return {};
    const GgufTensor* tensor = claim(find(name));
    if (tensor == nullptr) return slot.required ? Status(missing(name)) : Status();
    if (tensor->elements() != size || tensor->dims[0] != size)
      return wrong_shape(*tensor, fmt::format("[{}]", size));
    file_.vectors_.push_back({&slot, layer, {tensor, 0, 1, size}});
    return {};
  }

  Status bind_packed() {
    if (!spec_.is_moe()) {
      return fail(ErrorKind::kMalformed, "{}: the file is packed, and the model has no experts",
                  kPackVersionKey);
    }
    SOLI_ASSIGN_OR_RETURN(file_.packed_, PackedExperts::bind(file_.gguf_, *file_.family_, spec_));
    for (const GgufTensor* tensor : file_.packed_->tensors()) claim(tensor);
    return {};
  }

  Status bind_experts(const ExpertSlot& slot, int64_t layer) {
    const int64_t n_experts = spec_.router.n_experts;
    const int64_t rows = size_of(spec_, slot.rows);
    const int64_t cols = size_of(spec_, slot.cols);
    auto& bound = file_.experts_[static_cast<size_t>(layer)][static_cast<size_t>(slot.which)];
    bound.reserve(static_cast<size_t>(n_experts));
    if (file_.packed_) {
      const GgufTensor* const packed = file_.packed_->matrix(layer, slot.which);
      for (int64_t e = 0; e < n_experts; ++e) bound.push_back({packed, e * rows, rows, cols});
      return {};
    }
    const std::string merged_name = tensor_name(slot.merged_pattern, layer);
    if (const GgufTensor* merged = claim(find(merged_name))) {
      if (merged->dims != std::array<int64_t, 4>{cols, rows, n_experts, 1}) {
        return wrong_shape(*merged, fmt::format("[{}, {}, {}] ({}.expert_count is {})", cols, rows, n_experts,
                                                spec_.architecture, n_experts));
      }
      for (int64_t e = 0; e < n_experts; ++e) bound.push_back({merged, e * rows, rows, cols});
      return {};
    }
    if (const GgufTensor* both = slot.which == ExpertMatrix::kDown
                                     ? nullptr
                                     : claim(find(tensor_name(kGateAndUpPattern, layer)))) {
      if (both->dims != std::array<int64_t, 4>{cols, 2 * rows, n_experts, 1})
        return wrong_shape(*both, fmt::format("[{}, {}, {}]", cols, 2 * rows, n_experts));
      const int64_t first = slot.which == ExpertMatrix::kGate ? 0 : rows;
      for (int64_t e = 0; e < n_experts; ++e) bound.push_back({both, 2 * e * rows + first, rows, cols});
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

  Status bind_expert_biases(const ExpertSlot& slot, int64_t layer) {
    if (slot.bias_pattern.empty()) return {};
    const std::string name = tensor_name(slot.bias_pattern, layer);
    const GgufTensor* bias = claim(find(name));
    if (bias == nullptr) return missing(name);
    const int64_t rows = size_of(spec_, slot.rows);
    if (bias->dims != std::array<int64_t, 4>{rows, spec_.router.n_experts, 1, 1})
      return wrong_shape(*bias, fmt::format("[{}, {}]", rows, spec_.router.n_experts));
    SOLI_RETURN_IF_ERROR(check_bias_type(*bias));
    file_.expert_biases_[static_cast<size_t>(layer)][static_cast<size_t>(slot.which)] = bias;
    return {};
  }

  static Status check_bias_type(const GgufTensor& bias) {
    if (bias.type == kGgmlF32) return {};
    return fail(ErrorKind::kUnsupported, "tensor {}: a bias of type {} is not supported; F32 is", bias.name,
                ggml_type_name(bias.type));
  }

  /// Claims what a file of the family may hold and soli does not read.
  void ignore_what_is_not_computed() {
    for (const std::string& pattern : file_.family_->ignored) {
      for (int64_t layer = 0; layer < spec_.n_layers; ++layer) claim(find(tensor_name(pattern, layer)));
    }
    for (const GgufTensor& tensor : file_.gguf_.tensors()) {
      const int64_t layer = layer_of(tensor.name);
      if (layer >= spec_.n_layers && layer < spec_.n_layers + spec_.n_prediction_layers) claim(&tensor);
    }
  }

  /// The layer in "blk.12.rest", or -1.
  static int64_t layer_of(std::string_view name) {
    constexpr std::string_view kPrefix = "blk.";
    if (!name.starts_with(kPrefix)) return -1;
    int64_t layer = -1;
    const char* const end = name.data() + name.size();
    const auto [dot, error] = std::from_chars(name.data() + kPrefix.size(), end, layer);
    return error == std::errc() && dot != end && *dot == '.' ? layer : -1;
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

std::vector<const GgufTensor*> ModelFile::tensors() const {
  std::set<const GgufTensor*> extents;
  if (packed_) extents.insert(packed_->tensors().begin(), packed_->tensors().end());
  std::vector<const GgufTensor*> tensors;
  for (const GgufTensor& tensor : gguf_.tensors()) {
    if (!extents.contains(&tensor)) tensors.push_back(&tensor);
  }
  if (!packed_) return tensors;
  for (const GgufTensor& matrix : packed_->matrices()) tensors.push_back(&matrix);
  return tensors;
}

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
