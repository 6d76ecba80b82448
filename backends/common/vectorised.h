// Own loops compiled for several instruction sets; the best one that the CPU has is taken when the
// loop runs.
#pragma once

#include "backends/common/cpu.h"

#if defined(__clang__)  // which has no such option: it prefers what the target has
#define OCTET_WIDEST ""
#else
#define OCTET_WIDEST ",prefer-vector-width=512"
#endif

namespace octet {

template <typename Body>
void run_generic(const Body& body) {
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

// Runs body(), a lambda with __attribute__((always_inline)), with the widest vectors of this CPU.
template <typename Body>
void run_vectorised(const Body& body) {
#if defined(__x86_64__)
  if (may_use(Isa::kAvx512)) return run_avx512(body);
  if (may_use(Isa::kAvx2)) return run_avx2(body);
#endif
  run_generic(body);
}

}  // namespace octet
