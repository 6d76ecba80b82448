// Chooses the instruction set of custom kernels: the best that the CPU has and that the environment
// variable ONEDNN_MAX_CPU_ISA allows. That variable limits oneDNN's kernels too, so setting it
// makes the whole runtime behave as on an older x86 CPU. On Arm it limits custom kernels only:
// ADVSIMD (NEON alone) or DOTPROD.
//
// A kernel is written once, as a plain loop in an always_inline lambda. run_vectorized compiles the
// lambda for AVX-512, for AVX2 and for the build's baseline (SSE2, NEON), and picks one of the
// three at run time:
//
//   run_vectorized([=]() __attribute__((always_inline)) {
//     for (int64_t i = 0; i < count; ++i) y[i] = 2 * x[i];
//   });
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#if defined(__clang__)  // clang has no such option: it uses the widest vectors of the target
#define OCTET_WIDEST ""
#else
#define OCTET_WIDEST ",prefer-vector-width=512"
#endif

namespace octet {

// Each set includes those before it of the same architecture, except that CPUs with AVX-512 may
// lack kAvxVnni.
enum class Isa {
  kAvx2,        // with FMA
  kAvxVnni,     // AVX2 and products of bytes in vectors of 256 bits
  kAvx512,      // F, BW, DQ and VL
  kAvx512Vnni,  // AVX-512 and products of bytes
  kAvx512Bf16,  // and products of bfloat16
  kDotProduct,  // Arm: sums of four products of bytes
  kI8mm,        // Arm: products of 2x8 by 8x2 bytes
};

// The rank of the limit: on x86 0 below AVX2, 1 AVX2, 2 AVX-VNNI, 3 AVX-512, 4 AVX512-VNNI, 5
// AVX512-BF16 and later sets; on Arm 0 NEON, 1 dot products, 5 all sets.
inline int isa_limit() {
  struct Limit {
    std::string_view name;
    int rank;
  };
  constexpr Limit kLimits[] = {
#if defined(__aarch64__)
      {"ADVSIMD", 0},
      {"DOTPROD", 1},
#else
      {"SSE41", 0},     {"AVX", 0},         {"AVX2", 1},
      {"AVX2_VNNI", 2}, {"AVX512_CORE", 3}, {"AVX512_CORE_VNNI", 4},
#endif
  };
  static const int limit = [&] {
    const char* text = std::getenv("ONEDNN_MAX_CPU_ISA");
    if (text == nullptr) text = std::getenv("DNNL_MAX_CPU_ISA");
    for (const Limit& known : kLimits)
      if (text != nullptr && known.name == text) return known.rank;
    return 5;
  }();
  return limit;
}

#if defined(__x86_64__)

inline bool cpu_has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 &&
         (a & (1u << 4)) != 0;
}

inline bool may_use(Isa isa) {
  static const unsigned usable = [] {  // a bit for each set
    const bool is_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool is_avx512 = is_avx2 && __builtin_cpu_supports("avx512f") &&
                           __builtin_cpu_supports("avx512bw") &&
                           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    const bool has[] = {is_avx2 && isa_limit() >= 1,
                        is_avx2 && isa_limit() >= 2 && cpu_has_avx_vnni(),
                        is_avx512 && isa_limit() >= 3,
                        is_avx512 && isa_limit() >= 4 && __builtin_cpu_supports("avx512vnni"),
                        is_avx512 && isa_limit() >= 5 && __builtin_cpu_supports("avx512bf16")};
    unsigned bits = 0;
    for (unsigned i = 0; i < std::size(has); ++i) bits |= has[i] ? 1u << i : 0;
    return bits;
  }();
  return (usable >> static_cast<int>(isa) & 1) != 0;
}

#elif defined(__aarch64__) && defined(__linux__)

inline bool cpu_has_dot_product() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
inline bool cpu_has_i8mm() {
  return cpu_has_dot_product() && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
}

inline bool may_use(Isa isa) {
  static const bool has_dot_product = isa_limit() >= 1 && cpu_has_dot_product(),
                    has_i8mm = isa_limit() >= 2 && cpu_has_i8mm();
  return (isa == Isa::kDotProduct && has_dot_product) || (isa == Isa::kI8mm && has_i8mm);
}

#else

inline bool may_use(Isa) { return false; }

#endif

// The instruction sets that custom kernels use on this machine, such as "AVX2 AVX-512 AVX512-VNNI";
// "x86-64" or "NEON" when there are none.
inline std::string usable_isas() {
  struct Name {
    Isa isa;
    const char* text;
  };
  std::string text;
  for (const Name& name :
       {Name{Isa::kAvx2, "AVX2"}, Name{Isa::kAvxVnni, "AVX-VNNI"}, Name{Isa::kAvx512, "AVX-512"},
        Name{Isa::kAvx512Vnni, "AVX512-VNNI"}, Name{Isa::kAvx512Bf16, "AVX512-BF16"},
        Name{Isa::kDotProduct, "dotprod"}, Name{Isa::kI8mm, "i8mm"}})
    if (may_use(name.isa)) text += (text.empty() ? "" : " ") + std::string(name.text);
#if defined(__aarch64__)
  return text.empty() ? "NEON" : "NEON " + text;
#else
  return text.empty() ? "x86-64" : text;
#endif
}

// Runs `body`, a lambda with __attribute__((always_inline)), compiled for the best instruction set.
template <typename Body>
void run_baseline(const Body& body) {
  body();
}
#if defined(__x86_64__)
template <typename Body>
[[gnu::target("avx2,fma")]] void run_avx2(const Body& body) {
  body();
}
template <typename Body>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl" OCTET_WIDEST)]] void run_avx512(
    const Body& body) {
  body();
}
#endif
template <typename Body>
void run_vectorized(const Body& body) {
#if defined(__x86_64__)
  if (may_use(Isa::kAvx512)) return run_avx512(body);
  if (may_use(Isa::kAvx2)) return run_avx2(body);
#endif
  run_baseline(body);
}

// Floats in a vector of the set that run_vectorized uses: 16, 8 or 4.
inline int64_t vector_floats() { return may_use(Isa::kAvx512) ? 16 : may_use(Isa::kAvx2) ? 8 : 4; }

// As run_vectorized, for kernels written in vectors of a fixed size: calls
// body.operator()<vector_floats()>().
template <typename Body>
void run_in_vectors(const Body& body) {
#if defined(__x86_64__)
  if (may_use(Isa::kAvx512))
    return run_avx512([&]() __attribute__((always_inline)) { body.template operator()<16>(); });
  if (may_use(Isa::kAvx2))
    return run_avx2([&]() __attribute__((always_inline)) { body.template operator()<8>(); });
#endif
  body.template operator()<4>();
}

// Vectors of `count` floats or integers, or twice as many int16, loadable from any address.
template <int64_t count>
struct VectorOf {
  using Floats [[gnu::vector_size(count * sizeof(float)), gnu::aligned(4), gnu::may_alias]] = float;
  using Ints [[gnu::vector_size(count * sizeof(int32_t)), gnu::aligned(4), gnu::may_alias]] =
      int32_t;
  using Int16s [[gnu::vector_size(count * sizeof(int32_t)), gnu::aligned(2), gnu::may_alias]] =
      int16_t;
};

}  // namespace octet
