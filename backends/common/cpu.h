// Instruction sets that own kernels may use: what the CPU has, and no more than the environment
// variable ONEDNN_MAX_CPU_ISA allows, which limits oneDNN's kernels too. So one variable shows any
// x86 machine as a lesser one.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace octet {

// Each x86 set includes those before it, but for kAvxVnni, which CPUs with AVX-512 may lack.
enum class Isa {
  kAvx2,        // with FMA
  kAvxVnni,     // AVX2 and products of bytes in vectors of 256 bits
  kAvx512,      // F, BW, DQ and VL
  kAvx512Vnni,  // AVX-512 and products of bytes
};

#if defined(__x86_64__)

// The rank of the limit: 0 below AVX2, 1 AVX2, 2 AVX-VNNI, 3 AVX-512, 4 AVX512-VNNI and whatever
// comes after.
inline int isa_limit() {
  struct Limit {
    std::string_view name;
    int rank;
  };
  constexpr Limit kLimits[] = {
      {"SSE41", 0}, {"AVX", 0}, {"AVX2", 1}, {"AVX2_VNNI", 2}, {"AVX512_CORE", 3},
  };
  static const int limit = [&] {
    const char* text = std::getenv("ONEDNN_MAX_CPU_ISA");
    if (text == nullptr) text = std::getenv("DNNL_MAX_CPU_ISA");
    for (const Limit& known : kLimits)
      if (text != nullptr && known.name == text) return known.rank;
    return 4;
  }();
  return limit;
}

inline bool cpu_has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a & (1u << 4)) != 0;
}

inline bool may_use(Isa isa) {
  const bool is_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool is_avx512 = is_avx2 && __builtin_cpu_supports("avx512f") &&
                         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                         __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case Isa::kAvx2:
      return is_avx2 && isa_limit() >= 1;
    case Isa::kAvxVnni:
      return is_avx2 && isa_limit() >= 2 && cpu_has_avx_vnni();
    case Isa::kAvx512:
      return is_avx512 && isa_limit() >= 3;
    case Isa::kAvx512Vnni:
      return is_avx512 && isa_limit() >= 4 && __builtin_cpu_supports("avx512vnni");
  }
  return false;
}

#else

inline bool may_use(Isa) { return false; }

#endif

// Those that own kernels may use: "AVX2 AVX-512 AVX512-VNNI", "x86-64" or "AArch64" without any.
inline std::string usable_isas() {
  struct Name {
    Isa isa;
    const char* text;
  };
  std::string text;
  for (const Name& name : {Name{Isa::kAvx2, "AVX2"}, Name{Isa::kAvxVnni, "AVX-VNNI"},
                           Name{Isa::kAvx512, "AVX-512"}, Name{Isa::kAvx512Vnni, "AVX512-VNNI"}})
    if (may_use(name.isa)) text += (text.empty() ? "" : " ") + std::string(name.text);
#if defined(__aarch64__)
  return "AArch64";
#else
  return text.empty() ? "x86-64" : text;
#endif
}

}  // namespace octet
