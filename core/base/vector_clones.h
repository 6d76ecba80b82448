// OCTET_VECTOR_CLONES compiles a function once for each vector width, vectorized whatever the
// options of its source; the program picks the widest that the CPU has when it starts. In sources
// compiled with -ffp-contract=off all give the same bits.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define OCTET_VECTOR_CLONES \
  __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))
#else
#define OCTET_VECTOR_CLONES
#endif
