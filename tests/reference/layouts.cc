#include "reference/layouts.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"

namespace soli::reference {
namespace {

using Tensor = GgufRewrite::Tensor;

/// Takes the tensor of that name out of the file.
std::optional<Tensor> take(GgufRewrite& file, const std::string& name) {
  auto& tensors = file.tensors();
  const auto at =
      std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == name; });
  if (at == tensors.end()) return std::nullopt;
  Tensor taken = std::move(*at);
  tensors.erase(at);
  return taken;
}

/// "blk.N." of every layer that has a tensor "blk.N.<name>".
std::vector<std::string> layers_with(const GgufRewrite& file, const std::string& name) {
  std::vector<std::string> prefixes;
  for (const Tensor& tensor : file.tensors()) {
    const size_t at = tensor.name.find("." + name);
    if (tensor.name.starts_with("blk.") && at != std::string::npos && tensor.name.substr(at + 1) == name)
      prefixes.push_back(tensor.name.substr(0, at + 1));
  }
  return prefixes;
}

/// Rows of `parts` one after the other, within each of the `slices` parts that the last dimension counts.
void join(GgufRewrite& file, const std::vector<std::string>& names, const std::string& joined, size_t row_dim,
          int64_t slices) {
  std::vector<Tensor> parts;
  for (const std::string& name : names) {
    std::optional<Tensor> taken = take(file, name);
    if (!taken) return;  // a bias, which none of them has
    parts.push_back(*std::move(taken));
  }
  Tensor out = {.name = joined, .type = parts[0].type, .dims = parts[0].dims, .data = {}};
  out.dims[row_dim] = 0;
  for (const Tensor& part : parts) out.dims[row_dim] += part.dims[row_dim];
  for (int64_t slice = 0; slice < slices; ++slice) {
    for (const Tensor& part : parts) {
      const size_t bytes = part.data.size() / static_cast<size_t>(slices);
      out.data += part.data.substr(static_cast<size_t>(slice) * bytes, bytes);
    }
  }
  file.tensors().push_back(std::move(out));
}

constexpr size_t kFloatBytes = sizeof(float);

/// One head's keys then values, [n_plain + value][rank], of slices [rank][n_plain] and [value][rank].
std::string joined_head(const Tensor& keys, const Tensor& values, int64_t head) {
  const auto n_plain = static_cast<size_t>(keys.dims[0]);
  const auto rank = static_cast<size_t>(keys.dims[1]);
  const auto h = static_cast<size_t>(head);
  std::string rows;
  for (size_t i = 0; i < n_plain; ++i) {
    for (size_t r = 0; r < rank; ++r)
      rows += keys.data.substr(((h * rank + r) * n_plain + i) * kFloatBytes, kFloatBytes);
  }
  const size_t bytes = values.data.size() / static_cast<size_t>(values.dims[2]);
  return rows + values.data.substr(h * bytes, bytes);
}

}  // namespace

void fuse_qkv(GgufRewrite& file) {
  for (const std::string& layer : layers_with(file, "attn_k.weight")) {
    for (const auto& [kind, row_dim] : {std::pair(".weight", 1), std::pair(".bias", 0)}) {
      join(file, {layer + "attn_q" + kind, layer + "attn_k" + kind, layer + "attn_v" + kind},
           layer + "attn_qkv" + kind, static_cast<size_t>(row_dim), 1);
    }
  }
}

void fuse_gate_and_up(GgufRewrite& file) {
  for (const std::string& layer : layers_with(file, "ffn_gate_exps.weight")) {
    const int64_t n_experts = file.tensor(layer + "ffn_gate_exps.weight").dims[2];
    join(file, {layer + "ffn_gate_exps.weight", layer + "ffn_up_exps.weight"},
         layer + "ffn_gate_up_exps.weight", 1, n_experts);
  }
}

void join_latent_projections(GgufRewrite& file) {
  Tensor keys;
  Tensor values;
  int64_t n_rotated = 0;
  for (const std::string& layer : layers_with(file, "attn_k_b.weight")) {
    keys = *take(file, layer + "attn_k_b.weight");
    values = *take(file, layer + "attn_v_b.weight");
    const int64_t n_heads = keys.dims[2];
    n_rotated = file.tensor(layer + "attn_kv_a_mqa.weight").dims[1] - keys.dims[1];
    Tensor joined = {.name = layer + "attn_kv_b.weight",
                     .type = keys.type,
                     .dims = {keys.dims[1], n_heads * (keys.dims[0] + values.dims[1])},
                     .data = {}};
    for (int64_t h = 0; h < n_heads; ++h) joined.data += joined_head(keys, values, h);
    file.tensors().push_back(std::move(joined));
  }
  SOLI_CHECK(!keys.dims.empty(), "no attn_k_b in the file");
  const std::string prefix = "deepseek2.attention.";
  const auto size = [](int64_t value) { return GgufValue::of_uint32(static_cast<uint32_t>(value)); };
  file.set(prefix + "head_count_kv", size(keys.dims[2]))
      .set(prefix + "key_length", size(keys.dims[0] + n_rotated))
      .set(prefix + "value_length", size(values.dims[1]))
      .remove(prefix + "key_length_mla")
      .remove(prefix + "value_length_mla");
}

}  // namespace soli::reference
