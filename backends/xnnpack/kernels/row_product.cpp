// The product as our own: for releases of XNNPACK whose integer products write 8 bits only.
#include "backends/xnnpack/kernels/row_product.h"

#include <cstring>
#include <new>

#include "backends/xnnpack/kernels/row_kernels.h"
#include "backends/xnnpack/memory.h"

namespace octet::xnnpack {
namespace {

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

// From [out, in]; zeros where there are no columns or elements.
std::shared_ptr<int8_t[]> pack(const int8_t* from, int64_t out, int64_t in, int64_t depth) {
  const int64_t bytes = round_up(out, kBlockColumns) * depth;
  const xnn_allocator& memory = *memory_source();
  void* const block = memory.aligned_allocate(memory.context, 64, static_cast<size_t>(bytes));
  if (block == nullptr) throw std::bad_alloc();
  const std::shared_ptr<int8_t[]> packed(static_cast<int8_t*>(block), [&memory](int8_t* p) {
    memory.aligned_deallocate(memory.context, p);
  });
  if (out % kBlockColumns != 0 || in % kGroup != 0)
    std::memset(packed.get(), 0, static_cast<size_t>(bytes));
  for (int64_t n = 0; n < out; ++n) {
    const int8_t* row = from + n * in;
    int8_t* to =
        packed.get() + n / kBlockColumns * kBlockColumns * depth + n % kBlockColumns * kGroup;
    for (int64_t k = 0; k + kGroup <= in; k += kGroup)
      std::memcpy(to + k * kBlockColumns, row + k, kGroup);
    const int64_t left = in % kGroup;
    std::memcpy(to + (in - left) * kBlockColumns, row + in - left, static_cast<size_t>(left));
  }
  return packed;
}

}  // namespace

struct RowProduct::Packed {
  RowLayout rows;
  int64_t out;
  std::shared_ptr<int8_t[]> weights;
  std::vector<int32_t> sums;  // these three: of whole blocks
  std::vector<float> scale;
  std::vector<float> bias;
  float low, high;
};

int lowest_byte() { return best_row_kernel().lowest; }

RowProduct::RowProduct(const RowProductTerms& terms, int64_t rows, pthreadpool_t) {
  const int64_t out = terms.weights.values.shape()[0], in = terms.weights.values.shape()[1];
  const RowLayout layout = {rows, in};
  Packed packed = {layout,
                   out,
                   pack(terms.weights.values.data<int8_t>(), out, in, layout.stride()),
                   {},
                   terms.weights.scale,
                   terms.bias,
                   terms.low,
                   terms.high};
  const size_t columns = static_cast<size_t>(round_up(out, kBlockColumns));
  packed.sums.resize(columns);
  packed.scale.resize(columns);
  packed.bias.resize(columns);
  const int8_t* value = terms.weights.values.data<int8_t>();
  for (int64_t n = 0; n < out; ++n)
    for (int64_t k = 0; k < in; ++k) packed.sums[static_cast<size_t>(n)] += *value++;
  packed_ = std::make_shared<const Packed>(std::move(packed));
}

void RowProduct::run(const std::byte* from, std::byte* to, pthreadpool_t pool) const {
  // so many rows of x stay in the second cache while all columns pass
  constexpr int64_t kMostRows = 96;
  const Packed& p = *packed_;
  const RowProductView view = {reinterpret_cast<const uint8_t*>(from) + p.rows.values(),
                               p.rows.stride(),
                               reinterpret_cast<const RowParameters*>(from),
                               p.weights.get(),
                               p.rows.stride(),
                               p.sums.data(),
                               p.scale.data(),
                               p.bias.data(),
                               reinterpret_cast<float*>(to),
                               p.out,
                               p.low,
                               p.high};
  const int64_t blocks = static_cast<int64_t>(p.sums.size()) / kBlockColumns,
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
