// ModelSummary as a table for people.
#include <fmt/format.h>

#include <initializer_list>
#include <iterator>
#include <utility>

#include "base/units.h"
#include "base/utf8.h"
#include "cli/model_options.h"
#include "cli/model_summary.h"

namespace soli::cli {
namespace {

using Out = std::back_insert_iterator<std::string>;

void line(Out out, std::string_view name, const std::string& value) {
  fmt::format_to(out, "{:<20} {}\n", name, value);
}

std::string percent(int64_t part, int64_t whole) {
  return fmt::format("{:.1f} %",
                     whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string size_text(const PartSize& size) {
  return fmt::format("{} parameters, {}", format_count(static_cast<double>(size.parameters)),
                     format_bytes(size.bytes));
}

void render_file(Out out, const ModelSummary& summary) {
  const GgufFile& gguf = summary.file->gguf();
  const ModelSpec& spec = summary.file->spec();
  line(out, "model", spec.name.empty() ? "(without a name)" : printable(spec.name));
  line(out, "file",
       fmt::format("{}, {}{}, GGUF version {}", printable(gguf.path(), 400), format_bytes(gguf.file_bytes()),
                   gguf.n_shards() > 1 ? fmt::format(" in {} shards", gguf.n_shards()) : "", gguf.version()));
  if (const PackedExperts* const packed = summary.file->packed()) {
    line(out, "packed",
         fmt::format("each expert is one read, laid out as {} (version {}){}", kPackLayout, kPackVersion,
                     packed->n_stripes() > 1 ? fmt::format(", in {} stripes", packed->n_stripes()) : ""));
  }
  line(out, "family", spec.architecture);
  line(out, "tokenizer", printable(summary.tokenizer, 400));
  line(out, "chat template", printable(summary.chat_template, 400));
  line(out, "context", fmt::format("{} positions", spec.context_length));
}

std::string describe_attention(const ModelSpec& spec) {
  std::string text =
      spec.is_latent()
          ? fmt::format("{} heads of {}, from a latent vector of {} and {} rotated elements per position",
                        spec.n_heads, spec.latent_key_dim, spec.latent_rank, spec.rope_dims)
          : fmt::format("{} heads of {}, {} for keys and values", spec.n_heads, spec.head_dim,
                        spec.n_kv_heads);
  if (spec.sliding_window > 0)
    text += fmt::format("; {} layers see a window of {}", spec.n_window_layers(), spec.sliding_window);
  return text;
}

void render_shape(Out out, const ModelSpec& spec) {
  line(out, "shape",
       fmt::format("{} layers, hidden size {}, vocabulary {}", spec.n_layers, spec.hidden_size,
                   spec.vocab_size));
  line(out, "attention", describe_attention(spec));
  if (!spec.is_moe()) {
    line(out, "experts", fmt::format("none: a dense model, feed-forward width {}", spec.ffn_width));
    return;
  }
  line(out, "experts",
       fmt::format("{} per layer in {} layers, {} per token, width {}", spec.router.n_experts,
                   spec.n_moe_layers(), spec.router.experts_per_token, spec.expert_width));
  if (spec.shared_expert_width > 0) {
    line(out, "shared experts", fmt::format("width {}", spec.shared_expert_width));
  }
  line(out, "gating", describe_gating(spec.router));
}

/// The parts that a model has, all of it, and `active` ones by what they are; bytes where there is a file.
void render_parts(Out out, const ParameterCounts& counts, bool with_bytes,
                  std::initializer_list<std::pair<std::string_view, PartSize>> active) {
  const PartSize& total = counts.nominal_total;
  fmt::format_to(out, "\n{:<20} {:>16} {:>8}{}\n", "part", "parameters", "share",
                 with_bytes ? fmt::format(" {:>12}", "bytes") : "");
  const auto row = [&](std::string_view name, const PartSize& size) {
    fmt::format_to(out, "{:<20} {:>16} {:>8}{}\n", name, size.parameters,
                   percent(size.parameters, total.parameters),
                   with_bytes ? fmt::format(" {:>12}", format_bytes(size.bytes)) : "");
  };
  for (int part = 0; part < kParts; ++part) {
    const PartSize& size = counts.nominal[static_cast<size_t>(part)];
    if (size.parameters > 0) row(soli::name_of(static_cast<Part>(part)), size);
  }
  row("nominal", total);
  for (const auto& [name, size] : active) row(name, size);
}

std::string describe_support(const TypeSummary& type) {
  if (!type.supported) return "not supported";
  if (!type.has_matrices) return "vectors, as f32";
  return fmt::format("{} | {}", *type.with_act_f32, *type.with_act_q8);
}

void render_types(Out out, const ModelSummary& summary) {
  fmt::format_to(out, "\n{:<10} {:>8} {:>16} {:>12} {:>12}  {}\n", "type", "tensors", "elements", "bytes",
                 "bits/weight", "activations with --act f32 | q8");
  for (const TypeSummary& type : summary.types) {
    fmt::format_to(out, "{:<10} {:>8} {:>16} {:>12} {:>12.3f}  {}\n", ggml_type_name(type.type),
                   type.n_tensors, type.elements, format_bytes(type.bytes), type.bits_per_weight(),
                   describe_support(type));
  }
}

void render_memory(Out out, const ModelSummary& summary) {
  fmt::format_to(out, "\n");
  line(out, "active per token",
       fmt::format("{}; activation ratio {:.4f}", size_text(summary.active), summary.activation_ratio()));
  line(out, "resident weights",
       summary.resident_bytes
           ? fmt::format("{} once loaded (all experts)", format_bytes(*summary.resident_bytes))
           : "none: the file has weight types that soli does not run");
  const int64_t n = summary.file->spec().context_length;
  const auto kv = [&](int64_t position_bytes) {
    return fmt::format("{} per position, {} for {} positions", format_bytes(position_bytes),
                       format_bytes(position_bytes * n), n);
  };
  line(out, "keys, values (f16)", kv(summary.kv_position_bytes_f16));
  line(out, "keys, values (f32)", kv(summary.kv_position_bytes_f32));
}

}  // namespace

std::string render_text(const ModelSummary& summary) {
  std::string text;
  const Out out(text);
  render_file(out, summary);
  render_shape(out, summary.file->spec());
  render_parts(out, summary.counts, true, {{"active per token", summary.active}});
  render_types(out, summary);
  render_memory(out, summary);
  return text;
}

std::string render_text(const ShapeSummary& summary) {
  std::string text;
  const Out out(text);
  line(out, "shape of", summary.name);
  line(out, "family", summary.spec.architecture);
  line(out, "context", fmt::format("{} positions", summary.spec.context_length));
  render_shape(out, summary.spec);
  render_parts(out, summary.counts, false,
               {{"active per token", summary.active},
                {"  embedding whole", {summary.active_with_embedding(), 0}},
                {"  no vocabulary", {summary.active_without_vocabulary(), 0}}});
  return text;
}

std::string render_tensors(const ModelFile& file) {
  std::string text = fmt::format("{:<40} {:<8} {:>24} {:>12} {:>6} {:>14}\n", "tensor", "type", "dimensions",
                                 "bytes", "shard", "offset");
  for (const GgufTensor& tensor : file.gguf().tensors()) {
    std::string dims;
    for (int i = 0; i < tensor.n_dims; ++i) {
      dims += (i == 0 ? "" : " x ") + std::to_string(tensor.dims[static_cast<size_t>(i)]);
    }
    text += fmt::format("{:<40} {:<8} {:>24} {:>12} {:>6} {:>14}\n", printable(tensor.name),
                        ggml_type_name(tensor.type), dims, tensor.bytes, tensor.shard, tensor.offset);
  }
  return text;
}

}  // namespace soli::cli
