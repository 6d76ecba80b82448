// Runs the loops of row_kernels.h.
#include "backends/xnnpack/kernels/byte_linear.h"

#include <algorithm>

#include "backends/kernels/isa.h"
#include "backends/xnnpack/kernels/byte_rows.h"
#include "backends/xnnpack/kernels/parts.h"

namespace octet::xnnpack {
struct ByteLinear::Packed {
  int64_t rows, in, out, stride;
  int32_t x_zero;
  PackedColumns columns;
  ByteScales scales;  // padded to whole blocks

  // the scratch memory: rows, their parameters, sums as floats
  int64_t parameters() const { return round_up(rows * stride, 64); }
  int64_t results() const {
    return parameters() + round_up(rows * static_cast<int64_t>(sizeof(RowParameters)), 64);
  }
  int64_t end() const {
    return results() + (scales.y_zero ? rows * out * static_cast<int64_t>(sizeof(float)) : 0);
  }
};

ByteLinear::ByteLinear(const ByteLinearTerms& terms) {
  const int64_t out = terms.weights.shape()[0], in = terms.weights.shape()[1],
                stride = round_up(in, kGroup);
  const Tensor weights = terms.weights.contiguous();
  Packed packed = {terms.rows,  in,           out,
                   stride,      terms.x_zero, pack_columns(weights.data<int8_t>(), out, in, stride),
                   terms.scales};
  packed.scales.scale.resize(packed.columns.sums.size());
  packed.scales.bias.resize(packed.columns.sums.size());
  packed_ = std::make_shared<const Packed>(std::move(packed));
}

size_t ByteLinear::scratch_bytes() const { return static_cast<size_t>(packed_->end()); }

void ByteLinear::run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
                     pthreadpool_t pool) const {
  constexpr int64_t kMostRows = 96, kMostBlocks = 16;  // per part, to stay in the caches
  const Packed& p = *packed_;
  const int8_t* x = reinterpret_cast<const int8_t*>(from[0]);
  uint8_t* bytes = reinterpret_cast<uint8_t*>(scratch);
  RowParameters* parameters = reinterpret_cast<RowParameters*>(scratch + p.parameters());
  const uint8_t flip = byte_flip();
  for_parts(pool, p.rows, rows_per_part(p.in), [&](int64_t first, int64_t last) {
    std::fill(parameters + first, parameters + last, RowParameters{p.x_zero + flip, 1.0f});
    run_vectorized([=, in = p.in, stride = p.stride]() __attribute__((always_inline)) {
      for (int64_t i = first; i < last; ++i)
        pack_row(x + i * in, bytes + i * stride, in, stride, flip);
    });
  });
  const ByteScales& scales = p.scales;
  float* const reals = reinterpret_cast<float*>(scales.y_zero ? scratch + p.results() : to);
  const RowProductView view = {bytes,
                               p.stride,
                               parameters,
                               p.columns.weights.get(),
                               p.stride,
                               p.columns.sums.data(),
                               scales.scale.data(),
                               scales.bias.data(),
                               reals,
                               p.out,
                               scales.low,
                               scales.high};
  const int64_t blocks = std::ssize(p.columns.sums) / kBlockColumns,
                row_parts = (p.rows + kMostRows - 1) / kMostRows,
                block_parts = (blocks + kMostBlocks - 1) / kMostBlocks;
  for_parts(pool, row_parts * block_parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = i / block_parts * kMostRows, block = i % block_parts * kMostBlocks;
      multiply_rows(view, row, std::min(kMostRows, p.rows - row), block,
                    std::min(kMostBlocks, blocks - block), scales.y_zero,
                    reinterpret_cast<int8_t*>(to));
    }
  });
}

bool prefers_byte_linear() {
  return opened_release() < Release::k2024 && (may_use(Isa::kAvx512Vnni) || may_use(Isa::kI8mm));
}

}  // namespace octet::xnnpack
