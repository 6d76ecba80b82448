// Multiplies with a custom kernel, for releases of XNNPACK whose integer products only write 8
// bits.
#include "backends/xnnpack/kernels/row_product.h"

#include "backends/xnnpack/kernels/parts.h"
#include "backends/xnnpack/kernels/row_kernels.h"

namespace octet::xnnpack {
struct RowProduct::Packed {
  RowLayout rows;
  int64_t out;
  PackedColumns columns;
  std::vector<float> scale;  // as `bias`: padded to whole blocks
  std::vector<float> bias;
  float low, high;
};

int lowest_byte() { return best_row_kernel().lowest; }

RowProduct::RowProduct(const RowProductTerms& terms, int64_t rows, pthreadpool_t) {
  const int64_t out = terms.weights.values.shape()[0], in = terms.weights.values.shape()[1];
  const RowLayout layout = {rows, in};
  Packed packed = {layout,
                   out,
                   pack_columns(terms.weights.values.data<int8_t>(), out, in, layout.stride()),
                   terms.weights.scale,
                   terms.bias,
                   terms.low,
                   terms.high};
  packed.scale.resize(packed.columns.sums.size());
  packed.bias.resize(packed.columns.sums.size());
  packed_ = std::make_shared<const Packed>(std::move(packed));
}

void RowProduct::run(std::span<const std::byte* const> from, std::byte* to, std::byte*,
                     pthreadpool_t pool) const {
  // rows of x that stay in the L2 cache while all columns are processed
  constexpr int64_t kMostRows = 96;
  const Packed& p = *packed_;
  const RowProductView view = {reinterpret_cast<const uint8_t*>(from[0]) + p.rows.values(),
                               p.rows.stride(),
                               reinterpret_cast<const RowParameters*>(from[0]),
                               p.columns.weights.get(),
                               p.rows.stride(),
                               p.columns.sums.data(),
                               p.scale.data(),
                               p.bias.data(),
                               reinterpret_cast<float*>(to),
                               p.out,
                               p.low,
                               p.high};
  const int64_t blocks = static_cast<int64_t>(p.columns.sums.size()) / kBlockColumns,
                column_parts = round_up(blocks, kTileBlocks) / kTileBlocks;
  const int64_t threads = static_cast<int64_t>(pthreadpool_get_threads_count(pool));
  int64_t row_parts = (p.rows.rows + kMostRows - 1) / kMostRows;
  if (threads > 1 && row_parts * column_parts < 4 * threads)
    row_parts = 4 * threads / column_parts + 1;
  const int64_t rows = round_up((p.rows.rows + row_parts - 1) / row_parts, kTileRows);
  pthreadpool_parallelize_2d_tile_2d(
      pool,
      [](void* context, size_t row, size_t block, size_t row_count, size_t block_count) {
        best_row_kernel().run(*static_cast<const RowProductView*>(context),
                              static_cast<int64_t>(row), static_cast<int64_t>(row_count),
                              static_cast<int64_t>(block), static_cast<int64_t>(block_count));
      },
      const_cast<RowProductView*>(&view), static_cast<size_t>(p.rows.rows),
      static_cast<size_t>(blocks), static_cast<size_t>(rows), static_cast<size_t>(kTileBlocks), 0);
}

}  // namespace octet::xnnpack
