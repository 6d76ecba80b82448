// Says whether products of bfloat16 are fast on this CPU.
#pragma once

#include <cstdlib>
#include <string_view>

#include "backends/kernels/isa.h"

namespace octet {

// Whether the CPU has AVX512-BF16, which oneDNN then uses. ONEDNN_MAX_CPU_ISA can take it away.
inline bool has_bfloat16_products() {
#if defined(__x86_64__)
  const char* limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  const bool is_below = limit != nullptr && std::string_view(limit) == "AVX512_CORE_VNNI";
  return may_use(Isa::kAvx512Vnni) && !is_below && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace octet
