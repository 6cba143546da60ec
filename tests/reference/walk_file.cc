#include "reference/walk_file.h"

#include <cmath>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "format/gguf_writer.h"
#include "reference/layouts.h"
#include "reference/tensor_file.h"
#include "reference/walk_family.h"

namespace soli::reference {
namespace {

void must(const Status& status) { SOLI_CHECK(status.has_value(), "{}", status.error().message); }

/// Elements of a tensor: normal, or 1 and more where they divide.
struct Planned {
  std::string name;
  std::vector<int64_t> dims;  // ggml order
  double mean = 0;
  double deviation = 1;
  bool divisor = false;
  bool twins = false;  // of the last dimension, every second part is like the one before it
};

class ModelWriter {
 public:
  explicit ModelWriter(const WalkShape& shape)
      : shape_(shape), family_(walk_family(shape.family)), rng_(shape.seed) {}

  void write(const std::string& path) {
    set_sizes();
    set_rope();
    if (shape_.n_experts > 0) set_experts();
    plan_global();
    for (int64_t layer = 0; layer < shape_.n_layers + shape_.n_nextn; ++layer) plan_layer(layer);
    write_tensors(path);
  }

 private:
  void set(const std::string& suffix, int64_t value) {
    writer_.set(shape_.family + "." + suffix, GgufValue::of_uint32(static_cast<uint32_t>(value)));
  }
  void set_number(const std::string& suffix, double value) {
    writer_.set(shape_.family + "." + suffix, GgufValue::of_float(static_cast<float>(value)));
  }
  void set_text(const std::string& suffix, const char* value) {
    writer_.set(shape_.family + "." + suffix, GgufValue::of_string(value));
  }

  void set_sizes() {
    writer_.set("general.architecture", GgufValue::of_string(shape_.family));
    set("block_count", shape_.n_layers + shape_.n_nextn);
    set("embedding_length", shape_.hidden);
    set("context_length", shape_.context);
    set("feed_forward_length", shape_.ffn_width);
    set_number("attention.layer_norm_rms_epsilon", 1e-5);
    set("attention.head_count", shape_.n_heads);
    set("attention.head_count_kv", shape_.latent > 0 ? 1 : shape_.n_kv_heads);
    if (shape_.latent > 0) {
      set_latent();
    } else {
      set("attention.key_length", shape_.head_dim);
      set("attention.value_length", shape_.value_dim);
    }
    if (shape_.window > 0) set("attention.sliding_window", shape_.window);
    if (!family_.granite) return;
    set_number("embedding_scale", 3);
    set_number("residual_scale", 0.4);
    set_number("attention.scale", 0.3);
    set_number("logit_scale", 5);
  }

  void set_latent() {
    set("attention.kv_lora_rank", shape_.latent);
    if (shape_.q_latent > 0) set("attention.q_lora_rank", shape_.q_latent);
    set("attention.key_length", shape_.latent + shape_.n_rotated);
    set("attention.value_length", shape_.latent);
    set("attention.key_length_mla", shape_.head_dim);
    set("attention.value_length_mla", shape_.value_dim);
  }

  void set_rope() {
    set("rope.dimension_count", shape_.n_rotated);
    set_number("rope.freq_base", shape_.rope_base);
    if (shape_.scaling == Scaling::kNone) return;
    if (shape_.scaling == Scaling::kLongrope) {
      set_text("rope.scaling.type", "longrope");
      set_number("rope.scaling.attn_factor", shape_.factor);
    } else {
      set_text("rope.scaling.type", shape_.scaling == Scaling::kYarn ? "yarn" : "linear");
      set_number("rope.scaling.factor", shape_.factor);
    }
    if (shape_.original_context > 0) set("rope.scaling.original_context_length", shape_.original_context);
    if (shape_.log_multiplier) set_number("rope.scaling.yarn_log_multiplier", 0.0707);
  }

  void set_experts() {
    set("expert_count", shape_.n_experts);
    set("expert_used_count", shape_.k);
    if (family_.expert_width_key) set("expert_feed_forward_length", shape_.expert_width);
    if (family_.leading_dense) set("leading_dense_block_count", shape_.n_dense);
    if (shape_.n_shared > 0) {
      set("expert_shared_count", shape_.n_shared);
      // What Qwen2, Ernie, Hunyuan and Granite state; bailingmoe2 multiplies it with the count.
      const bool times_count = shape_.family == "bailingmoe2";
      set("expert_shared_feed_forward_length", shape_.expert_width * (times_count ? 1 : shape_.n_shared));
    }
    if (shape_.n_nextn > 0) set("nextn_predict_layers", shape_.n_nextn);
    if (shape_.gating > 0) set("expert_gating_func", shape_.gating);
    if (shape_.family == "ernie4_5-moe") set("interleave_moe_layer_step", 1);
    if (shape_.family == "qwen3vlmoe") set_sections();
    if (family_.weight_keys) {
      writer_.set(shape_.family + ".expert_weights_norm", GgufValue::of_bool(shape_.renormalise));
      if (shape_.weight_scale > 0) set_number("expert_weights_scale", shape_.weight_scale);
    }
    if (shape_.n_groups == 0) return;
    set("expert_group_count", shape_.n_groups);
    set("expert_group_used_count", shape_.n_groups_used);
  }

  /// Which pairs turn by time, height and width: all alike for text.
  void set_sections() {
    const auto pairs = static_cast<int32_t>(shape_.n_rotated / 2);
    const std::vector<int32_t> sections = {pairs - pairs / 3 * 2, pairs / 3, pairs / 3, 0};
    writer_.set(shape_.family + ".rope.dimension_sections", GgufValue::of_int32s(sections));
  }

  /// A matrix [rows][cols], or some of them; outputs have the size of inputs, times `gain`.
  void matrix(const std::string& name, int64_t rows, int64_t cols, double gain = 1, int64_t slices = 0) {
    std::vector<int64_t> dims = {cols, rows};
    if (slices > 0) dims.push_back(slices);
    planned_.push_back(
        {.name = name, .dims = dims, .deviation = gain / std::sqrt(static_cast<double>(cols))});
  }
  void norm(const std::string& name, int64_t size) {
    planned_.push_back({.name = name + ".weight", .dims = {size}, .mean = 1, .deviation = 0.3});
    if (family_.phi) bias(name + ".bias", size);
  }
  void bias(const std::string& name, int64_t size) {
    planned_.push_back({.name = name, .dims = {size}, .deviation = 0.3});
  }
  void factors(const std::string& name) {
    planned_.push_back({.name = name, .dims = {shape_.n_rotated / 2}, .divisor = true});
  }

  void plan_global() {
    planned_.push_back({.name = "token_embd.weight", .dims = {shape_.hidden, shape_.vocab}});
    norm("output_norm", shape_.hidden);
    if (!shape_.tied_output) matrix("output.weight", shape_.vocab, shape_.hidden);
    if (family_.phi) bias("output.bias", shape_.vocab);
    if (shape_.rope_factors) factors("rope_freqs.weight");
    if (shape_.scaling != Scaling::kLongrope) return;
    factors("rope_factors_long.weight");
    factors("rope_factors_short.weight");
  }

  void plan_layer(int64_t layer) {
    const auto name = [&](const char* suffix) { return in_layer(layer, suffix); };
    norm(name("attn_norm"), shape_.hidden);
    if (shape_.latent > 0) {
      plan_latent(layer);
    } else {
      plan_heads(layer);
    }
    matrix(name("attn_output.weight"), shape_.hidden, shape_.n_heads * shape_.value_dim);
    if (shape_.o_bias) bias(name("attn_output.bias"), shape_.hidden);
    if (family_.gpt_oss) planned_.push_back({.name = name("attn_sinks.weight"), .dims = {shape_.n_heads}});
    norm(name(family_.post_attention_norm ? "post_attention_norm" : "ffn_norm"), shape_.hidden);
    if (shape_.n_experts > 0 && layer >= shape_.n_dense) {
      plan_experts(layer);
    } else {
      plan_ffn(layer, ".weight", shape_.ffn_width);
    }
    if (layer < shape_.n_layers) return;
    matrix(name("nextn.eh_proj.weight"), shape_.hidden, 2 * shape_.hidden);
    norm(name("nextn.enorm"), shape_.hidden);
    norm(name("nextn.hnorm"), shape_.hidden);
    norm(name("nextn.shared_head_norm"), shape_.hidden);
  }

  void plan_heads(int64_t layer) {
    const bool whole_row = family_.qk_norm == WalkNorm::kWholeRow;
    for (const char* const which : {"q", "k", "v"}) {
      const int64_t n_heads = *which == 'q' ? shape_.n_heads : shape_.n_kv_heads;
      const int64_t rows = n_heads * (*which == 'v' ? shape_.value_dim : shape_.head_dim);
      const std::string name = in_layer(layer, std::string("attn_") + which);
      matrix(name + ".weight", rows, shape_.hidden, 1.5);
      if (shape_.qkv_bias) bias(name + ".bias", rows);
      if (shape_.qk_norm && *which != 'v') norm(name + "_norm", whole_row ? rows : shape_.head_dim);
    }
  }

  void plan_latent(int64_t layer) {
    const auto name = [&](const char* suffix) { return in_layer(layer, suffix); };
    const int64_t q_row = shape_.n_heads * shape_.head_dim;
    if (shape_.q_latent > 0) {
      matrix(name("attn_q_a.weight"), shape_.q_latent, shape_.hidden);
      norm(name("attn_q_a_norm"), shape_.q_latent);
      matrix(name("attn_q_b.weight"), q_row, shape_.q_latent, 1.5);
    } else {
      matrix(name("attn_q.weight"), q_row, shape_.hidden, 1.5);
    }
    matrix(name("attn_kv_a_mqa.weight"), shape_.latent + shape_.n_rotated, shape_.hidden, 1.5);
    norm(name("attn_kv_a_norm"), shape_.latent);
    matrix(name("attn_k_b.weight"), shape_.latent, shape_.head_dim - shape_.n_rotated, 1.5, shape_.n_heads);
    matrix(name("attn_v_b.weight"), shape_.value_dim, shape_.latent, 1, shape_.n_heads);
  }

  void plan_ffn(int64_t layer, const std::string& suffix, int64_t width) {
    matrix(in_layer(layer, "ffn_gate" + suffix), width, shape_.hidden, 2);
    matrix(in_layer(layer, "ffn_up" + suffix), width, shape_.hidden);
    matrix(in_layer(layer, "ffn_down" + suffix), shape_.hidden, width);
  }

  void plan_experts(int64_t layer) {
    const auto name = [&](const char* suffix) { return in_layer(layer, suffix); };
    const int64_t n = shape_.n_experts;
    const double gain = family_.gpt_oss ? 5 : 2;  // so that gpt-oss clamps
    matrix(name("ffn_gate_inp.weight"), n, shape_.hidden, 2);
    planned_.back().twins = shape_.twins;
    matrix(name("ffn_gate_exps.weight"), shape_.expert_width, shape_.hidden, gain, n);
    matrix(name("ffn_up_exps.weight"), shape_.expert_width, shape_.hidden, gain, n);
    matrix(name("ffn_down_exps.weight"), shape_.hidden, shape_.expert_width, 1 / gain, n);
    for (const char* const of_scores : {"exp_probs_b.bias", "ffn_gate_inp.bias"}) {
      const bool of_logits = std::string_view(of_scores).starts_with("ffn");
      if (!(of_logits ? family_.gpt_oss : shape_.selection_bias)) continue;
      bias(name(of_scores), n);
      planned_.back().twins = shape_.twins;
    }
    if (family_.gpt_oss) {
      planned_.push_back({.name = name("ffn_gate_exps.bias"), .dims = {shape_.expert_width, n}});
      planned_.push_back({.name = name("ffn_up_exps.bias"), .dims = {shape_.expert_width, n}});
      planned_.push_back({.name = name("ffn_down_exps.bias"), .dims = {shape_.hidden, n}});
    }
    if (shape_.n_shared == 0) return;
    plan_ffn(layer, "_shexp.weight", shape_.n_shared * shape_.expert_width);
    if (family_.shared == WalkShared::kGated)
      planned_.push_back({.name = name("ffn_gate_inp_shexp.weight"), .dims = {shape_.hidden}});
  }

  /// Normal with mean 0 and variance 1 (Box, Muller 1958).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - rng_.next_unit()));
    return radius * std::cos(2 * std::numbers::pi * rng_.next_unit());
  }

  void write_tensors(const std::string& path) {
    for (const Planned& tensor : planned_) must(writer_.add_tensor(tensor.name, kGgmlF32, tensor.dims));
    must(writer_.begin(path));
    for (const Planned& tensor : planned_) {
      int64_t n = 1;
      for (const int64_t dim : tensor.dims) n *= dim;
      std::vector<float> values;
      for (int64_t i = 0; i < n; ++i) {
        const double drawn = normal();
        const double value =
            tensor.divisor ? 1 + 2 * std::abs(drawn) : tensor.mean + tensor.deviation * drawn;
        values.push_back(static_cast<float>(value));
      }
      if (tensor.twins) {
        const int64_t part = n / tensor.dims.back();
        for (int64_t i = 0; i < n; ++i) {
          if (i / part % 2 == 1) values[static_cast<size_t>(i)] = values[static_cast<size_t>(i - part)];
        }
      }
      must(writer_.append(std::as_bytes(std::span(values))));
    }
    must(writer_.finish());
  }

  const WalkShape& shape_;
  const WalkFamily& family_;
  Rng rng_;
  GgufWriter writer_;
  std::vector<Planned> planned_;
};

}  // namespace

void write_model(const WalkShape& shape, const std::string& path) {
  ModelWriter(shape).write(path);
  GgufRewrite file(path);
  if (shape.fused_qkv) fuse_qkv(file);
  if (shape.fused_gate_up) fuse_gate_and_up(file);
  if (shape.single_experts) file.split_experts();
  if (shape.old_latent_layout) join_latent_projections(file);
  file.write(path);
}

}  // namespace soli::reference
