#include "model/synth_metadata.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "format/tokenizer_spec.h"
#include "model/synth.h"

namespace soli {
namespace {

constexpr int64_t kByteTokens = 256;
constexpr int64_t kBegin = 256;
constexpr int64_t kEnd = 257;

GgufValue integer_value(int64_t value) {
  const auto positive = static_cast<uint64_t>(value);
  return positive <= UINT32_MAX ? GgufValue::of_uint32(static_cast<uint32_t>(positive))
                                : GgufValue::of_uint64(positive);
}

/// Sets a key. Numbers that scale something are left out where a reader would take the same from the family.
void set_key(const KeySlot& slot, const ModelSpec& spec, const ModelSpec& defaults, GgufWriter& writer) {
  const std::string key = spec.architecture + "." + slot.suffix;
  const auto set = [&](auto field) {
    const auto value = field_of(spec, field);
    using Value = std::remove_const_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, double>) {
      if (slot.required || value != field_of(defaults, field))
        writer.set(key, GgufValue::of_float(static_cast<float>(value)));
    } else if constexpr (std::is_same_v<Value, bool>) {
      writer.set(key, GgufValue::of_bool(value));
    } else if constexpr (std::is_same_v<Value, Gating>) {
      const auto* number = std::find(kGatingNumbers.begin(), kGatingNumbers.end(), value);
      writer.set(key, integer_value(number - kGatingNumbers.begin() + 1));
    } else {
      if (slot.required || value != field_of(defaults, field)) writer.set(key, integer_value(value));
    }
  };
  std::visit(set, slot.field);
}

void set_position_scaling(const ModelSpec& spec, GgufWriter& writer) {
  const std::string key = spec.architecture + ".rope.scaling.type";
  switch (spec.position_scaling) {
    case PositionScaling::kLinear:
      if (spec.rope_scale != 1) writer.set(key, GgufValue::of_string("linear"));
      return;
    case PositionScaling::kYarn:
      return writer.set(key, GgufValue::of_string("yarn"));
    case PositionScaling::kLongRope:
      return writer.set(key, GgufValue::of_string("longrope"));
  }
}

/// What keys state in the older layout of latent attention: heads as they are projected.
ModelSpec in_older_layout(ModelSpec spec) {
  spec.n_kv_heads = spec.n_heads;
  spec.head_dim = spec.latent_key_dim;
  spec.value_dim = spec.latent_value_dim;
  spec.latent_key_dim = spec.latent_value_dim = 0;
  return spec;
}

void append_utf8(uint32_t code_point, std::string& text) {
  if (code_point < 0x80) {
    text.push_back(static_cast<char>(code_point));
  } else {  // two bytes reach up to U+07FF
    text.push_back(static_cast<char>(0xC0 | (code_point >> 6)));
    text.push_back(static_cast<char>(0x80 | (code_point & 0x3F)));
  }
}

/// The 256 bytes as GPT-2 vocabularies spell them: printable characters of Latin-1 stand for themselves, the
/// others for U+0100 and up, in order.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> tokens(kByteTokens);
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < kByteTokens; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    append_utf8(printable ? byte : next++, tokens[byte]);
  }
  return tokens;
}

void set_vocabulary(int64_t vocab_size, GgufWriter& writer) {
  std::vector<std::string> tokens = byte_tokens();
  tokens.reserve(static_cast<size_t>(vocab_size));
  tokens.emplace_back("<|begin|>");
  tokens.emplace_back("<|end|>");
  for (auto id = static_cast<int64_t>(tokens.size()); id < vocab_size; ++id)
    tokens.push_back(fmt::format("[{}]", id));
  std::vector<int32_t> types(tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  types[kBegin] = types[kEnd] = static_cast<int32_t>(TokenType::kControl);
  writer.set("tokenizer.ggml.model", GgufValue::of_string("gpt2"));
  writer.set("tokenizer.ggml.pre", GgufValue::of_string("default"));
  writer.set("tokenizer.ggml.tokens", GgufValue::of_strings(tokens));
  writer.set("tokenizer.ggml.token_type", GgufValue::of_int32s(types));
  writer.set("tokenizer.ggml.merges", GgufValue::of_strings({}));
  writer.set("tokenizer.ggml.bos_token_id", GgufValue::of_uint32(kBegin));
  writer.set("tokenizer.ggml.eos_token_id", GgufValue::of_uint32(kEnd));
  // So that an empty text has a token too.
  writer.set("tokenizer.ggml.add_bos_token", GgufValue::of_bool(true));
}

}  // namespace

void set_synth_metadata(const Family& family, const ModelSpec& spec, bool fuse_attention,
                        GgufWriter& writer) {
  const std::string prefix = spec.architecture + ".";
  writer.set("general.architecture", GgufValue::of_string(spec.architecture));
  if (!spec.name.empty()) writer.set("general.name", GgufValue::of_string(spec.name));
  writer.set("general.quantization_version", GgufValue::of_uint32(2));
  // Not asked for by soli, which looks at the tensors, and by other engines.
  writer.set(prefix + "vocab_size", integer_value(spec.vocab_size));
  if (spec.is_moe()) writer.set(prefix + "expert_feed_forward_length", integer_value(spec.expert_width));
  set_position_scaling(spec, writer);
  const ModelSpec stated = fuse_attention && spec.is_latent() ? in_older_layout(spec) : spec;
  for (const KeySlot& slot : family.keys) set_key(slot, stated, family.defaults, writer);
  set_vocabulary(spec.vocab_size, writer);
}

}  // namespace soli
