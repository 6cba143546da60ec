#include "reference/walk_shape.h"

#include <algorithm>
#include <ostream>

#include "reference/walk_family.h"

namespace soli::reference {
namespace {

// What norms divide has at least so many elements: of few, all can be near 0 at once, and then rounding
// errors grow beyond every tolerance.
constexpr int64_t kMinNormed = 8;
// Multiplications of one run of the reference, so that a walk of many cases stays short.
constexpr int64_t kMaxWork = 20'000'000;
constexpr int64_t kMaxTokens = 130;  // more than two KV pages

/// Upper bounds of sizes: most shapes are small, and some reach the unrolled loops of the kernels.
struct Bounds {
  int64_t hidden = 70;
  int64_t vocab = 90;
  int64_t rotated_pairs = 8;
  int64_t latent = 24;
  int64_t ffn_width = 40;
  int64_t n_experts = 384;
};
constexpr Bounds kSmall;
constexpr Bounds kWide = {
    .hidden = 300, .vocab = 300, .rotated_pairs = 40, .latent = 100, .ffn_width = 200, .n_experts = 60};

/// Uniform from the first case on, where rapidcheck would begin with small numbers.
int64_t between(int64_t low, int64_t high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<int64_t>(low, high + 1));
}
bool coin() { return *rc::gen::arbitrary<bool>(); }
bool draw(May may) { return may == May::kAlways || (may == May::kSometimes && coin()); }

template <typename T>
T one_of(std::initializer_list<T> values) {
  return *rc::gen::elementOf(std::vector<T>(values));
}

void draw_heads(const WalkFamily& family, const Bounds& bounds, WalkShape& shape) {
  const int64_t ratio = one_of<int64_t>({1, 1, 3, 8});
  shape.n_kv_heads = between(1, ratio == 8 ? 2 : 4);
  shape.n_heads = ratio * shape.n_kv_heads;
  const bool normed = family.qk_norm != WalkNorm::kNone;
  shape.n_rotated = 2 * between(normed ? kMinNormed / 2 : 1, bounds.rotated_pairs);
  const bool partial = family.latent || (!family.gpt_oss && !family.phi && coin());
  shape.head_dim = shape.n_rotated + (partial ? between(1, 9) : 0);
  shape.value_dim = family.free_value_dim && coin() ? between(1, 20) : shape.head_dim;
  if (!family.latent) return;
  shape.n_kv_heads = shape.n_heads;
  shape.latent = between(kMinNormed, bounds.latent);
  shape.q_latent = coin() ? between(kMinNormed, 20) : 0;
}

void draw_attention(const WalkFamily& family, const Bounds& bounds, WalkShape& shape) {
  draw_heads(family, bounds, shape);
  if (family.gpt_oss) shape.window = one_of<int64_t>({1, 2, 5, 16, 64, 128});
  shape.qkv_bias = draw(family.qkv_bias);
  shape.o_bias = draw(family.o_bias);
  shape.qk_norm = family.qk_norm == WalkNorm::kPerHeadSometimes ? coin() : family.qk_norm != WalkNorm::kNone;
  shape.rope_base = one_of<double>({10000, 500, 1e6});
  shape.context = one_of<int64_t>({kMaxTokens, 200, 1000});
  if (family.yarn && coin()) {
    shape.scaling = Scaling::kYarn;
    shape.factor = one_of<double>({1.5, 4, 32, 40});
    shape.original_context = one_of<int64_t>({8, 64, 512, 4096});
    shape.log_multiplier = family.latent;
  } else if (family.longrope) {
    shape.scaling = Scaling::kLongrope;
    shape.factor = one_of<double>({1, 1.19});
    shape.original_context = one_of<int64_t>({64, 128, 512});
  } else if (coin()) {
    shape.scaling = Scaling::kLinear;
    shape.factor = one_of<double>({1, 2.5, 8});
  }
  shape.rope_factors = family.rope_freqs && coin();
}

void draw_router(const WalkFamily& family, const Bounds& bounds, WalkShape& shape) {
  shape.n_experts = std::min(bounds.n_experts, one_of<int64_t>({1, 3, 5, 8, 60, 160, 384}));
  shape.k = one_of<int64_t>({1, 0, -1});
  if (shape.k == 0) shape.k = between(1, std::min<int64_t>(shape.n_experts, 12));
  if (shape.k == -1) shape.k = shape.n_experts;
  if (family.groups && coin() && shape.n_experts >= 8) {
    shape.n_groups = shape.n_experts % 8 == 0 ? one_of<int64_t>({2, 4}) : 5;
    shape.n_groups_used = between(1, shape.n_groups - 1);
    shape.k = std::min(shape.k, shape.n_groups_used * (shape.n_experts / shape.n_groups));
  }
  if (family.gating_key) shape.gating = one_of<int64_t>({1, 2});
  if (family.weight_keys) {
    shape.renormalise = coin();
    shape.weight_scale = one_of<double>({0, 1, 2.5});
  }
  shape.selection_bias = draw(family.selection_bias);
  shape.twins = shape.n_experts > 1 && between(0, 3) == 0;
}

void draw_ffn(const WalkFamily& family, const Bounds& bounds, WalkShape& shape) {
  shape.ffn_width = between(1, bounds.ffn_width);
  if (!draw(family.experts)) return;
  draw_router(family, bounds, shape);
  shape.expert_width = between(1, shape.n_experts > 8 ? 8 : bounds.ffn_width);
  const bool shared =
      family.shared != WalkShared::kNone && (family.shared != WalkShared::kPlainSometimes || coin());
  // Several shared experts are stored as one wide one.
  shape.n_shared = shared ? between(1, 3) : 0;
  if (family.leading_dense) shape.n_dense = between(0, shape.n_layers - 1);
  if (family.nextn) shape.n_nextn = between(0, 1);
  if (!family.expert_width_key) shape.ffn_width = shape.expert_width;
}

void draw_layout(const WalkFamily& family, WalkShape& shape) {
  shape.fused_qkv = !family.latent && coin();
  const int64_t experts_layout = family.gpt_oss || shape.n_experts == 0 ? 0 : between(0, 2);
  shape.fused_gate_up = experts_layout == 1 && family.latent;
  shape.single_experts = experts_layout == 2 && shape.n_experts <= 60;
  shape.old_latent_layout = family.latent && coin();
}

void draw_run(WalkShape& shape) {
  const int64_t active_width =
      std::max({shape.k * shape.expert_width, shape.ffn_width, shape.n_heads * shape.head_dim});
  const int64_t work_per_token = shape.n_layers * (4 * shape.hidden * (active_width + shape.n_experts) +
                                                   2 * shape.n_heads * shape.head_dim * kMaxTokens);
  shape.n_tokens = between(1, std::clamp<int64_t>(kMaxWork / work_per_token, 1, kMaxTokens));
  shape.chunk_rows = between(1, shape.n_tokens);
  shape.n_threads = static_cast<int>(between(1, 3));
  shape.isa = static_cast<int>(between(0, 7));
}

WalkShape draw_shape(const WalkFamily& family) {
  WalkShape shape;
  shape.family = family.name;
  shape.seed = *rc::gen::noShrink(rc::gen::arbitrary<uint64_t>());
  shape.n_layers = between(1, 4);
  const Bounds& bounds = between(0, 3) == 0 ? kWide : kSmall;
  shape.hidden = between(kMinNormed, bounds.hidden);
  shape.vocab = between(2, bounds.vocab);
  shape.tied_output = !family.untied_only && coin();
  draw_attention(family, bounds, shape);
  draw_ffn(family, bounds, shape);
  draw_layout(family, shape);
  draw_run(shape);
  return shape;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const WalkShape& s) {
  constexpr const char* kScalings[] = {"none", "linear", "yarn", "longrope"};
  out << s.family << " seed " << s.seed << ", " << s.n_layers << " layers (" << s.n_dense << " dense, "
      << s.n_nextn << " nextn), hidden " << s.hidden << ", vocab " << s.vocab
      << (s.tied_output ? " tied" : "") << "\n  heads " << s.n_heads << " of " << s.n_kv_heads << ", dims "
      << s.head_dim << " and " << s.value_dim << ", rotated " << s.n_rotated << ", window " << s.window
      << ", latent " << s.latent << " and " << s.q_latent << ", qk_norm " << s.qk_norm << ", qkv_bias "
      << s.qkv_bias << ", o_bias " << s.o_bias << "\n  rope base " << s.rope_base << ", scaling "
      << kScalings[static_cast<int>(s.scaling)] << " " << s.factor << ", original context "
      << s.original_context << ", context " << s.context << ", rope_freqs " << s.rope_factors
      << "\n  experts " << s.k << " of " << s.n_experts << ", width " << s.expert_width << ", shared "
      << s.n_shared << ", ffn " << s.ffn_width << ", groups " << s.n_groups_used << " of " << s.n_groups
      << ", gating " << s.gating << ", renormalise " << s.renormalise << ", scale " << s.weight_scale
      << ", selection bias " << s.selection_bias << ", twins " << s.twins << "\n  fused qkv " << s.fused_qkv
      << ", gate_up " << s.fused_gate_up << ", single experts " << s.single_experts << ", old latent layout "
      << s.old_latent_layout << "\n  tokens " << s.n_tokens << ", chunks of " << s.chunk_rows << ", threads "
      << s.n_threads << ", isa " << s.isa;
  return out;
}

rc::Gen<WalkShape> shapes_of(const std::string& family) {
  return rc::gen::exec([family] { return draw_shape(walk_family(family)); });
}

}  // namespace soli::reference
