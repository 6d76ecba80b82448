// Which tiles this CPU runs.
#include "backends/onednn/bytes/tiles.h"

#include "backends/common/cpu.h"

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
namespace tiles_avx2 {
extern const TileKernels kWords;
extern const BinTiles kBins;
extern const DepthwiseTiles kDepthwise;
}  // namespace tiles_avx2
namespace tiles_avx512 {
extern const TileKernels kWords;
extern const BinTiles kBins;
extern const DepthwiseTiles kDepthwise;
}  // namespace tiles_avx512
namespace tiles_avxvnni {
extern const TileKernels kQuads;
}

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
