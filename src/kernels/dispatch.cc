#include <fmt/ranges.h>

#include "kernels/isa/isa.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace soli::kernels {
namespace {

#if defined(__x86_64__)
/// __builtin_cpu_supports("f16c") is unknown to clang 14. The registers it uses are those of AVX.
bool has_f16c() {
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

/// The tables that this machine can run, the fastest first.
std::vector<const KernelTable*> available_tables() {
  std::vector<const KernelTable*> tables;
#if defined(__x86_64__)
  // These ask the operating system too: it must save the wide registers.
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
  if (has_avx512) tables.push_back(&avx512::kTable);
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
