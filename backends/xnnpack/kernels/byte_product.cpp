// Uses the loops of row_kernels.h, made for linears on rows quantized at run time. Each run packs b
// for them and copies a into rows of whole groups.
#include "backends/xnnpack/kernels/byte_product.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/kernels/isa.h"
#include "backends/kernels/vector_math.h"
#include "backends/xnnpack/kernels/byte_rows.h"
#include "backends/xnnpack/kernels/parts.h"

namespace octet::xnnpack {
namespace {

constexpr int64_t kAlignment = 64;

// Byte offsets of the parts of the scratch memory.
struct ByteLayout {
  int64_t stride;           // of a row
  int64_t columns, packed;  // per matrix b: padded columns, bytes
  int64_t rows, parameters, terms, weights, sums, results, end;
};

ByteLayout layout_of(const ByteProduct& p) {
  const MatrixBatch& batch = p.batch;
  const int64_t all_rows = batch.count() * batch.rows, matrices = std::ssize(batch.b);
  ByteLayout l{};
  l.stride = round_up(batch.depth, kGroup);
  l.columns = round_up(batch.columns, kBlockColumns);
  l.packed = l.columns * l.stride;
  int64_t next = 0;
  const auto place = [&](int64_t bytes) {
    return std::exchange(next, round_up(next + bytes, kAlignment));
  };
  l.rows = place(all_rows * l.stride);
  l.parameters = place(all_rows * static_cast<int64_t>(sizeof(RowParameters)));
  l.terms = place(all_rows * static_cast<int64_t>(sizeof(int32_t)));
  l.weights = place(matrices * l.packed);
  l.sums = place(matrices * l.columns * static_cast<int64_t>(sizeof(int32_t)));
  l.results = place(p.y_zero ? all_rows * batch.columns * static_cast<int64_t>(sizeof(float)) : 0);
  l.end = next;
  return l;
}

struct ByteCall {
  const ByteProduct& product;
  ByteLayout layout;
  const int8_t* a;
  const int8_t* b;
  std::byte* to;
  std::byte* scratch;

  template <typename T>
  T* at(int64_t offset) const {
    return reinterpret_cast<T*>(scratch + offset);
  }
  float* results() const {
    return product.y_zero ? at<float>(layout.results) : reinterpret_cast<float*>(to);
  }
};

// Packs rows of a as bytes and scales, and computes what zero points add to their products.
void pack_rows(const ByteCall& call, int64_t first, int64_t last, uint8_t flip) {
  const ByteProduct& p = call.product;
  const int64_t depth = p.batch.depth, rows = p.batch.rows, stride = call.layout.stride;
  const int32_t all = static_cast<int32_t>(depth) * p.a_zero, b_zero = p.b_zero;
  const RowParameters parameters = {p.a_zero + flip, p.scale};
  const int64_t* begins = p.batch.a.data();
  uint8_t* bytes = call.at<uint8_t>(call.layout.rows);
  int32_t* terms = call.at<int32_t>(call.layout.terms);
  RowParameters* of_rows = call.at<RowParameters>(call.layout.parameters);
  run_vectorized([=, a = call.a]() __attribute__((always_inline)) {
    for (int64_t i = first; i < last; ++i) {
      const int32_t sum = pack_row(a + begins[i / rows] + i % rows * depth, bytes + i * stride,
                                   depth, stride, flip);
      terms[i] = b_zero * (all - sum);
      of_rows[i] = parameters;
    }
  });
}

// Packs a block of columns, four elements of each together.
void pack_block(const int8_t* b, int64_t step, int64_t depth, int64_t columns, int8_t* to,
                int32_t* sums) {
  run_vectorized([=]() __attribute__((always_inline)) {
    int32_t sum[kBlockColumns] = {};
    for (int64_t k = 0; k < depth; k += kGroup) {
      int8_t four[kGroup][kBlockColumns] = {};
      for (int64_t i = 0; i < kGroup && k + i < depth; ++i) {
        const int8_t* row = b + (k + i) * step;
        if (columns == kBlockColumns) {
          std::memcpy(four[i], row, kBlockColumns);
        } else {
          std::memcpy(four[i], row, static_cast<size_t>(columns));
        }
      }
      int8_t* block = to + k * kBlockColumns;
      for (int64_t c = 0; c < kBlockColumns; ++c) {
        sum[c] += four[0][c] + four[1][c] + four[2][c] + four[3][c];
        for (int64_t i = 0; i < kGroup; ++i) block[c * kGroup + i] = four[i][c];
      }
    }
    std::memcpy(sums, sum, sizeof(sum));
  });
}

void pack_matrix(const ByteCall& call, int64_t i) {
  const MatrixBatch& batch = call.product.batch;
  const int8_t* b = call.b + batch.b[static_cast<size_t>(i)];
  int8_t* to = call.at<int8_t>(call.layout.weights) + i * call.layout.packed;
  int32_t* sums = call.at<int32_t>(call.layout.sums) + i * call.layout.columns;
  for (int64_t column = 0; column < batch.columns; column += kBlockColumns)
    pack_block(b + column, batch.columns, batch.depth,
               std::min(kBlockColumns, batch.columns - column), to + column * call.layout.stride,
               sums + column);
}

// Computes rows [row, last) of matrix i.
void multiply_matrix(const ByteCall& call, int64_t i, int64_t row, int64_t last) {
  const ByteProduct& p = call.product;
  const ByteLayout& l = call.layout;
  const int64_t b = static_cast<int64_t>(p.batch.b_of[static_cast<size_t>(i)]),
                before = i * p.batch.rows, columns = p.batch.columns;
  float* y = call.results() + before * columns;
  const RowProductView view = {call.at<uint8_t>(l.rows) + before * l.stride,
                               l.stride,
                               call.at<RowParameters>(l.parameters) + before,
                               call.at<int8_t>(l.weights) + b * l.packed,
                               l.stride,
                               call.at<int32_t>(l.sums) + b * l.columns,
                               p.ones.data(),
                               p.zeros.data(),
                               y,
                               columns,
                               p.low,
                               p.high,
                               p.b_zero == 0 ? nullptr : call.at<int32_t>(l.terms) + before};
  multiply_rows(view, row, last - row, 0, l.columns / kBlockColumns, p.y_zero,
                reinterpret_cast<int8_t*>(call.to) + before * columns);
}

}  // namespace

ByteProduct::ByteProduct(MatrixBatch matrices, int32_t zero_of_a, int32_t zero_of_b, float factor,
                         float least, float most)
    : batch(std::move(matrices)),
      a_zero(zero_of_a),
      b_zero(zero_of_b),
      scale(factor),
      low(least),
      high(most) {
  ones.assign(static_cast<size_t>(round_up(batch.columns, kBlockColumns)), 1.0f);
  zeros.assign(ones.size(), 0.0f);
}

size_t ByteProduct::scratch_bytes() const { return static_cast<size_t>(layout_of(*this).end); }

void ByteProduct::run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
                      pthreadpool_t pool) const {
  constexpr int64_t kRowsPerPart = 48;
  const ByteCall call = {*this,
                         layout_of(*this),
                         reinterpret_cast<const int8_t*>(from[0]),
                         reinterpret_cast<const int8_t*>(from[1]),
                         to,
                         scratch};
  const uint8_t flip = byte_flip();
  for_parts(pool, batch.count() * batch.rows, rows_per_part(batch.depth),
            [&](int64_t first, int64_t last) { pack_rows(call, first, last, flip); });
  for_parts(pool, std::ssize(batch.b), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) pack_matrix(call, i);
  });
  const int64_t row_parts = (batch.rows + kRowsPerPart - 1) / kRowsPerPart;
  for_parts(pool, batch.count() * row_parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = i % row_parts * kRowsPerPart;
      multiply_matrix(call, i / row_parts, row, std::min(row + kRowsPerPart, batch.rows));
    }
  });
}

}  // namespace octet::xnnpack
