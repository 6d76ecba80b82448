// tiles.h for AVX-512 without VNNI.
#include "backends/onednn/bytes/tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#define TILES tiles_avx512
#define TILES_NAME "AVX-512"
#define TILES_TARGET "avx512f,avx512bw,avx512dq,avx512vl"
#define TILES_WIDE 1
#define TILES_QUADS 0
#include "backends/onednn/bytes/tiles.inc"
#endif
