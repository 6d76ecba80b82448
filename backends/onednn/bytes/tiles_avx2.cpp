// tiles.h for AVX2.
#include "backends/onednn/bytes/tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#define TILES tiles_avx2
#define TILES_NAME "AVX2"
#define TILES_TARGET "avx2,fma"
#define TILES_WIDE 0
#define TILES_QUADS 0
#include "backends/onednn/bytes/tiles.inc"
#endif
