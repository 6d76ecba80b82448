// Which tiles this CPU runs.
#include "backends/onednn/onednn_byte_tiles.h"

#include "backends/cpu.h"

namespace octet::onednn {

#if defined(__x86_64__)
namespace tiles_avx2 {
extern const TileKernels kWords, kBins;
extern const DepthwiseTiles kDepthwise;
}
namespace tiles_avx512 {
extern const TileKernels kWords, kBins;
extern const DepthwiseTiles kDepthwise;
}
namespace tiles_avxvnni {
extern const TileKernels kQuads;
}

const TileKernels* find_word_kernels() {
  if (may_use(Isa::kAvx512)) return &tiles_avx512::kWords;
  return may_use(Isa::kAvx2) ? &tiles_avx2::kWords : nullptr;
}

const TileKernels* find_tile_kernels() { return may_use(Isa::kAvxVnni) ? &tiles_avxvnni::kQuads : find_word_kernels(); }

const TileKernels* find_bin_kernels() {
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
const TileKernels* find_bin_kernels() { return nullptr; }
#endif

}  // namespace octet::onednn
