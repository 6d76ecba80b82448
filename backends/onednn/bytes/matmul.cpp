// For each matrix of the batch, packs b into blocks of columns, then widens chunks of a's rows and
// multiplies them by each block.
#include "backends/onednn/bytes/conv.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "backends/kernels/isa.h"
#include "backends/onednn/kernels/loop.h"
#include "core/base/error.h"
#include "core/base/tensor.h"

namespace octet::onednn {
namespace {

constexpr int64_t kWidenedRows = 48;  // rows of a that are widened together

// A factor: the position of element (row, column) in a matrix, and its zero point.
struct Factor {
  int64_t row_step = 0, column_step = 0;  // elements
  int zero_point = 0;
  bool is_signed = false;
  std::vector<int64_t> matrices;  // per matrix of the batch: its first element
};

struct MatmulPlan {
  const TileKernels* kernels = nullptr;
  ByteConvOutput output;
  Factor a, b;
  int64_t rows = 1, depth = 1, columns = 1;
  std::vector<int32_t> offsets;
  std::vector<float> scale, bias;  // padded
  std::vector<int32_t> start;      // padded

  int64_t steps() const { return (depth + 1) / 2; }
  int64_t blocks() const { return (columns + kernels->lanes - 1) / kernels->lanes; }
  int block_lanes(int64_t block) const {
    return kernels->block_lanes(columns - block * kernels->lanes);
  }
  int64_t block_words() const { return steps() * kernels->lanes * 2; }
  int64_t scratch_words() const { return blocks() * block_words() + kWidenedRows * steps() * 2; }
};

Factor factor_of(const Stored& stored, const Dims& batch) {
  const size_t rank = stored.shape.size();
  Factor factor{stored.strides[rank - 2],
                stored.strides[rank - 1],
                stored.quant_params.zero_point,
                stored.quant_params.type == ElementType::s8,
                {}};
  for (int64_t i = 0; i < product(batch); ++i) {
    int64_t first = 0, rest = i;
    for (size_t d = batch.size(); d-- > 0; rest /= batch[d])
      if (stored.shape[d] != 1) first += rest % batch[d] * stored.strides[d];
    factor.matrices.push_back(first);
  }
  return factor;
}

template <typename T>
[[gnu::always_inline]] inline void widen_loop(const T* from, int64_t step, int16_t* __restrict to,
                                              int64_t count, int zero_point) {
  if (step == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<int16_t>(from[i] - zero_point);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<int16_t>(from[i * step] - zero_point);
  }
}

template <typename T>
[[gnu::always_inline]] inline void interleave_loop(const T* even, const T* odd, int64_t step,
                                                   int16_t* __restrict to, int64_t count,
                                                   int zero_point) {
  for (int64_t i = 0; i < count; ++i) {
    to[2 * i] = static_cast<int16_t>(even[i * step] - zero_point);
    to[2 * i + 1] = odd == nullptr ? int16_t{0} : static_cast<int16_t>(odd[i * step] - zero_point);
  }
}

// Packs one block of columns of b: words of two rows per column.
template <typename T>
void pack_block(const MatmulPlan& p, const T* matrix, int64_t block, int16_t* to) {
  const int64_t lanes = p.block_lanes(block), first = block * p.kernels->lanes,
                count = std::min<int64_t>(lanes, p.columns - first);
  const Factor& b = p.b;
  run_vectorized([&]() __attribute__((always_inline)) {
    if (b.row_step == 1 && b.column_step != 1) {  // a transposed factor: copy along its rows
      for (int64_t column = 0; column < count; ++column) {
        const T* from = matrix + (first + column) * b.column_step;
        int16_t* pair = to + 2 * column;
        for (int64_t k = 0; k + 1 < p.depth; k += 2, pair += lanes * 2) {
          pair[0] = static_cast<int16_t>(from[k] - b.zero_point);
          pair[1] = static_cast<int16_t>(from[k + 1] - b.zero_point);
        }
        if (p.depth % 2 != 0) {
          pair[0] = static_cast<int16_t>(from[p.depth - 1] - b.zero_point);
          pair[1] = 0;
        }
      }
    } else {
      for (int64_t k = 0; k < p.depth; k += 2) {
        const T* even = matrix + k * b.row_step + first * b.column_step;
        const T* odd = k + 1 < p.depth ? even + b.row_step : nullptr;
        if (odd != nullptr && b.column_step == 1) {
          interleave_loop(even, odd, 1, to + k * lanes, count, b.zero_point);
        } else {
          interleave_loop(even, odd, b.column_step, to + k * lanes, count, b.zero_point);
        }
      }
    }
  });
}

template <typename T>
void widen_rows(const MatmulPlan& p, const T* matrix, int64_t first, int64_t count, int16_t* to) {
  run_vectorized([&]() __attribute__((always_inline)) {
    for (int64_t row = first; row < first + count; ++row, to += p.steps() * 2) {
      widen_loop(matrix + row * p.a.row_step, p.a.column_step, to, p.depth, p.a.zero_point);
      if (p.depth % 2 != 0) to[p.depth] = 0;
    }
  });
}

// Computes rows [first, last) of one matrix of y.
void run_rows(const MatmulPlan& p, const std::byte* a, const std::byte* b, std::byte* y,
              int64_t matrix, int64_t first, int64_t last, bool packs, int16_t* scratch) {
  int16_t* blocks = scratch;
  int16_t* words = scratch + p.blocks() * p.block_words();
  const auto with_type = [](const Factor& factor, const std::byte* data, int64_t index,
                            const auto& body) {
    const int64_t begin = factor.matrices[static_cast<size_t>(index)];
    factor.is_signed ? body(reinterpret_cast<const int8_t*>(data) + begin)
                     : body(reinterpret_cast<const uint8_t*>(data) + begin);
  };
  if (packs)
    with_type(p.b, b, matrix, [&](const auto* from) {
      for (int64_t block = 0; block < p.blocks(); ++block)
        pack_block(p, from, block, blocks + block * p.block_words());
    });
  Tile tile = tile_for(p.output);
  tile.x_step = p.steps() * 4;
  tile.offsets = p.offsets.data();
  tile.steps = p.steps();
  tile.start = p.start.data();
  tile.scale = p.scale.data();
  tile.bias = p.bias.data();
  tile.y_step = p.columns;
  for (int64_t row = first; row < last; row += kWidenedRows) {
    const int64_t count = std::min(kWidenedRows, last - row);
    with_type(p.a, a, matrix, [&](const auto* from) { widen_rows(p, from, row, count, words); });
    for (int64_t block = 0; block < p.blocks(); ++block) {
      tile.weights = reinterpret_cast<const std::byte*>(blocks + block * p.block_words());
      tile.channels = std::min<int64_t>(p.kernels->lanes, p.columns - block * p.kernels->lanes);
      tile.x = reinterpret_cast<const std::byte*>(words);
      tile.y = y + ((matrix * p.rows + row) * p.columns + block * p.kernels->lanes) *
                       bytes_of(p.output.output);
      p.kernels->run(tile, p.output.output, p.block_lanes(block), count);
    }
  }
}

void run(const MatmulPlan& p, const std::byte* a, const std::byte* b, std::byte* y,
         int16_t* scratch, int64_t parts) {
  const int64_t matrices = std::ssize(p.a.matrices);
  // parts of a matrix's rows
  const int64_t shares =
      matrices >= parts ? 1 : std::min(parts, (p.rows + kWidenedRows - 1) / kWidenedRows);
  for_numbered_parts(matrices * shares, p.rows / shares * p.steps() * p.columns,
                     [&](int64_t part, int64_t first, int64_t last) {
                       for (int64_t i = first; i < last; ++i) {
                         const int64_t matrix = i / shares, share = i % shares;
                         run_rows(p, a, b, y, matrix, p.rows * share / shares,
                                  p.rows * (share + 1) / shares, i == first || share == 0,
                                  scratch + part * p.scratch_words());
                       }
                     });
}

}  // namespace

bool has_byte_matmul(int64_t depth) {
  constexpr int64_t kMostDepth = 33000;  // 255 * 255 * kMostDepth fits 32 bits
  return !may_use(Isa::kAvx512Vnni) && find_word_kernels() != nullptr && depth <= kMostDepth;
}

ScratchLoop byte_matmul_loop(const Stored& a, const Stored& b, const Stored& y,
                             const ByteConvOutput& output) {
  const size_t rank = y.shape.size();
  const Dims batch(y.shape.begin(), y.shape.end() - 2);
  OCTET_ASSERT(
      a.shape.size() == rank && b.shape.size() == rank && has_byte_matmul(a.shape[rank - 1]),
      "factors that the kernel does not take");
  MatmulPlan p;
  p.kernels = find_word_kernels();
  p.output = output;
  p.a = factor_of(a, batch);
  p.b = factor_of(b, batch);
  p.rows = y.shape[rank - 2];
  p.columns = y.shape[rank - 1];
  p.depth = a.shape[rank - 1];
  for (int64_t i = 0; i < p.steps(); ++i) p.offsets.push_back(static_cast<int32_t>(i * 4));
  p.start.assign(static_cast<size_t>(p.kernels->lanes), 0);
  p.scale.assign(static_cast<size_t>(p.kernels->lanes), output.scales.scale[0]);
  p.bias.assign(static_cast<size_t>(p.kernels->lanes), output.scales.bias[0]);
  const int64_t parts = omp_get_max_threads();
  const int64_t scratch_bytes = parts * p.scratch_words() * 2;
  Loop loop = [plan = std::make_shared<const MatmulPlan>(std::move(p)),
               parts](std::byte* const* arguments) {
    run(*plan, arguments[0], arguments[1], arguments[2], reinterpret_cast<int16_t*>(arguments[3]),
        parts);
  };
  return {std::move(loop), scratch_bytes, find_word_kernels()->name};
}

}  // namespace octet::onednn
