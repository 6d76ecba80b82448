// Compiles tiles.inc for each instruction set, and picks the best tiles for this CPU.
#include "backends/onednn/bytes/tiles.h"

#include "backends/kernels/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#define TILES tiles_avx2
#define TILES_NAME "AVX2"
#define TILES_TARGET "avx2,fma"
#define TILES_WIDE 0
#define TILES_QUADS 0
#include "backends/onednn/bytes/tiles.inc"

#define TILES tiles_avx512
#define TILES_NAME "AVX-512"
#define TILES_TARGET "avx512f,avx512bw,avx512dq,avx512vl"
#define TILES_WIDE 1
#define TILES_QUADS 0
#include "backends/onednn/bytes/tiles.inc"

#define TILES tiles_avxvnni
#define TILES_NAME "AVX-VNNI"
#define TILES_TARGET "avx2,fma,avxvnni"
#define TILES_WIDE 0
#define TILES_QUADS 1
#define TILES_DOT(sum, x, w) _mm256_dpbusd_avx_epi32(sum, x, w)
#include "backends/onednn/bytes/tiles.inc"
#endif

namespace octet::onednn {

std::array<TileKernels::Run, 2> TileKernels::split(int64_t pixels) const {
  const int64_t count = (pixels + most_pixels - 1) / most_pixels,
                width = (pixels + count - 1) / count, full = pixels - count * (width - 1);
  return {{{0, full, width}, {full * width, count - full, width - 1}}};
}

void TileKernels::run(Tile& tile, TileOutput output, int block_lanes, int64_t pixels) const {
  for (const Run& part : split(pixels)) {
    if (part.tiles == 0) continue;
    tile.tiles = part.tiles;
    kernel(output, block_lanes, part.width)(tile);
    move(tile, output, part.tiles * part.width);
  }
}

#if defined(__x86_64__)
const TileKernels* find_word_kernels() {
  if (may_use(Isa::kAvx512)) return &tiles_avx512::kWords;
  return may_use(Isa::kAvx2) ? &tiles_avx2::kWords : nullptr;
}

const TileKernels* find_tile_kernels() {
  return may_use(Isa::kAvxVnni) ? &tiles_avxvnni::kQuads : find_word_kernels();
}

const BinTiles* find_bin_tiles() {
  if (may_use(Isa::kAvxVnni)) return nullptr;
  if (may_use(Isa::kAvx512)) return &tiles_avx512::kBins;
  return may_use(Isa::kAvx2) ? &tiles_avx2::kBins : nullptr;
}

const DepthwiseTiles* find_depthwise_tiles() {
  if (may_use(Isa::kAvx512)) return &tiles_avx512::kDepthwise;
  return may_use(Isa::kAvx2) ? &tiles_avx2::kDepthwise : nullptr;
}
#else
const DepthwiseTiles* find_depthwise_tiles() { return nullptr; }
const TileKernels* find_word_kernels() { return nullptr; }
const TileKernels* find_tile_kernels() { return nullptr; }
const BinTiles* find_bin_tiles() { return nullptr; }
#endif

}  // namespace octet::onednn
