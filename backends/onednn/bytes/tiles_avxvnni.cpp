// tiles.h for AVX-VNNI: products of bytes in vectors of 256 bits.
#include "backends/onednn/bytes/tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#define TILES tiles_avxvnni
#define TILES_NAME "AVX-VNNI"
#define TILES_TARGET "avx2,fma,avxvnni"
#define TILES_WIDE 0
#define TILES_QUADS 1
#define TILES_DOT(sum, x, w) _mm256_dpbusd_avx_epi32(sum, x, w)
#include "backends/onednn/bytes/tiles.inc"
#endif
