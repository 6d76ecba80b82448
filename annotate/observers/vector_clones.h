// A function marked OCTET_VECTOR_CLONES is compiled once for each vector width, and the widest that
// the CPU has is chosen when the program starts. With -ffp-contract=off all give the same bits.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define OCTET_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define OCTET_VECTOR_CLONES
#endif
