#include <fmt/ranges.h>

#include "kernels/isa/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace soli::kernels {
namespace {

#if defined(__x86_64__)
/// __builtin_cpu_supports("f16c") is unknown to clang 14. The registers it uses are those of AVX.
[[maybe_unused]] bool has_f16c() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

/// Bits of leaf 7, sub-leaf 1, EAX (Intel SDM, CPUID), whose names compilers do not all know.
[[maybe_unused]] constexpr unsigned int kAvxVnniBit = 1U << 4;
[[maybe_unused]] constexpr unsigned int kAvx512Bf16Bit = 1U << 5;
[[maybe_unused]] bool has_leaf7_bit(unsigned int bit) {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & bit) != 0;
}
#endif

#if defined(SOLI_HAS_AVX512) && defined(SOLI_HAS_AVX512_BF16)
/// The table of avx512 with the instruction for bfloat16 dots in place of the emulation; same bits.
const KernelTable* avx512_with_bf16() {
  static std::vector<WeightKernels> weights(avx512::kTable.weights.begin(), avx512::kTable.weights.end());
  static const KernelTable table = [] {
    KernelTable patched = avx512::kTable;
    for (WeightKernels& type : weights) {
      if (type.partner == ActivationForm::kBf16) type.matmul_partner = avx512_bf16::matmul_bf16;
    }
    patched.weights = weights;
    patched.probe_dot_bf16 = avx512_bf16::probe_dot_bf16;
    return patched;
  }();
  return &table;
}
#endif

#if defined(SOLI_HAS_AVX512)
const KernelTable* avx512_table() {
#if defined(SOLI_HAS_AVX512_BF16)
  if (has_leaf7_bit(kAvx512Bf16Bit)) return avx512_with_bf16();
#endif
  return &avx512::kTable;
}
#endif

/// The tables that this machine can run, the fastest first.
std::vector<const KernelTable*> available_tables() {
  std::vector<const KernelTable*> tables;
#if defined(__x86_64__)
  // These ask the operating system too: it must save the wide registers.
  [[maybe_unused]] const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
#endif
#if defined(SOLI_HAS_AVX512)
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
  if (has_avx512) tables.push_back(avx512_table());
#endif
#if defined(SOLI_HAS_AVXVNNI)
  if (has_avx2 && has_leaf7_bit(kAvxVnniBit)) tables.push_back(&avxvnni::kTable);
#endif
#if defined(SOLI_HAS_AVX2)
  if (has_avx2) tables.push_back(&avx2::kTable);
#endif
  tables.push_back(&scalar::kTable);
  return tables;
}

}  // namespace

const WeightKernels* KernelTable::find(uint32_t gguf_type) const {
  for (const WeightKernels& type : weights) {
    if (type.gguf_type == gguf_type) return &type;
  }
  return nullptr;
}

std::vector<std::string_view> available_isas() {
  std::vector<std::string_view> names;
  for (const KernelTable* table : available_tables()) names.push_back(table->isa);
  return names;
}

Result<const KernelTable*> select_kernels(std::string_view isa) {
  const std::vector<const KernelTable*> tables = available_tables();
  if (isa.empty()) return tables.front();
  for (const KernelTable* table : tables) {
    if (table->isa == isa) return table;
  }
  return fail(ErrorKind::kInvalidArgument,
              "instruction set \"{}\" is not available here; this machine runs: {}", isa,
              fmt::join(available_isas(), ", "));
}

}  // namespace soli::kernels
