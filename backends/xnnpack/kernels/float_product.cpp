// Packs b in panels two vectors wide, padded with zeros; a tile of rows keeps its sums in registers
// over the whole depth. Uses the compiler's vector types, as wide as the CPU's.
#include "backends/xnnpack/kernels/float_product.h"

#include <cstring>

#include "backends/kernels/isa.h"
#include "backends/xnnpack/kernels/parts.h"
#include "backends/xnnpack/kernels/shared_weights.h"

namespace octet::xnnpack {
namespace {

constexpr int64_t kVectors = 2;  // per panel

struct PanelView {
  const float* a;
  int64_t a_step;  // between rows
  const float* panel;
  int64_t depth;
  float* y;
  int64_t y_step;
  int64_t columns;  // in this panel
  float low, high;
};

template <int64_t kLanes, int64_t kRows>
[[gnu::always_inline]] inline void multiply_tile(const PanelView& p, int64_t row) {
  using Vector = typename VectorOf<kLanes>::Floats;
  constexpr int64_t kWidth = kVectors * kLanes;
  Vector sum[kRows][kVectors] = {};
  const float* a = p.a + row * p.a_step;
  const float* b = p.panel;
  for (int64_t k = 0; k < p.depth; ++k, b += kWidth) {
    const Vector first = *reinterpret_cast<const Vector*>(b),
                 second = *reinterpret_cast<const Vector*>(b + kLanes);
#pragma GCC unroll 8
    for (int64_t m = 0; m < kRows; ++m) {
      const float factor = a[m * p.a_step + k];
      sum[m][0] += factor * first;
      sum[m][1] += factor * second;
    }
  }
#pragma GCC unroll 8
  for (int64_t m = 0; m < kRows; ++m) {
    float values[kWidth];
    *reinterpret_cast<Vector*>(values) = sum[m][0];
    *reinterpret_cast<Vector*>(values + kLanes) = sum[m][1];
    for (int64_t c = 0; c < kWidth; ++c) {
      const float least = values[c] < p.low ? p.low : values[c];
      values[c] = least > p.high ? p.high : least;
    }
    float* y = p.y + (row + m) * p.y_step;
    if (p.columns == kWidth) {
      std::memcpy(y, values, sizeof(values));
    } else {
      std::memcpy(y, values, static_cast<size_t>(p.columns) * sizeof(float));
    }
  }
}

template <int64_t kLanes, int64_t kRows>
[[gnu::always_inline]] inline void multiply_panel(const PanelView& p, int64_t row, int64_t last) {
  for (; row + kRows <= last; row += kRows) multiply_tile<kLanes, kRows>(p, row);
  for (; row + 2 <= last; row += 2) multiply_tile<kLanes, 2>(p, row);
  if (row < last) multiply_tile<kLanes, 1>(p, row);
}

// Computes rows [row, last).
void run_panel(const PanelView& p, int64_t row, int64_t last) {
  run_in_vectors([=, &p]<int64_t kLanes>() __attribute__((always_inline)) {
    multiply_panel<kLanes, kLanes == 16 ? 8 : 6>(p, row, last);
  });
}

int64_t panel_width() { return kVectors * vector_floats(); }

int64_t panels_of(const MatrixBatch& batch) {
  const int64_t width = panel_width();
  return (batch.columns + width - 1) / width;
}

int64_t panel_floats(const MatrixBatch& batch) { return batch.depth * panel_width(); }

// Packs one panel: [depth, width], zeros after the last column.
void pack_panel(const MatrixBatch& batch, const float* b, int64_t panel, float* to) {
  const int64_t width = panel_width(), first = panel * width,
                columns = batch.columns - first < width ? batch.columns - first : width;
  for (int64_t k = 0; k < batch.depth; ++k, to += width) {
    std::memcpy(to, b + k * batch.columns + first, static_cast<size_t>(columns) * sizeof(float));
    std::memset(to + columns, 0, static_cast<size_t>(width - columns) * sizeof(float));
  }
}

}  // namespace

size_t FloatProduct::scratch_bytes() const {
  return batch.b.size() * static_cast<size_t>(panels_of(batch) * panel_floats(batch)) *
         sizeof(float);
}

void FloatProduct::run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
                       pthreadpool_t pool) const {
  constexpr int64_t kRowsPerPart = 48;
  const float *a = reinterpret_cast<const float*>(from[0]),
              *b = reinterpret_cast<const float*>(from[1]);
  float *y = reinterpret_cast<float*>(to), *packed = reinterpret_cast<float*>(scratch);
  const int64_t panels = panels_of(batch), size = panel_floats(batch), width = panel_width();
  for_parts(pool, std::ssize(batch.b) * panels, rows_per_part(size),
            [&](int64_t first, int64_t last) {
              for (int64_t i = first; i < last; ++i)
                pack_panel(batch, b + batch.b[static_cast<size_t>(i / panels)], i % panels,
                           packed + i * size);
            });
  const int64_t row_parts = (batch.rows + kRowsPerPart - 1) / kRowsPerPart;
  for_parts(pool, batch.count() * row_parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const size_t matrix = static_cast<size_t>(i / row_parts);
      const int64_t row = i % row_parts * kRowsPerPart,
                    end = row + kRowsPerPart < batch.rows ? row + kRowsPerPart : batch.rows;
      const float* panel = packed + static_cast<int64_t>(batch.b_of[matrix]) * panels * size;
      float* out = y + static_cast<int64_t>(matrix) * batch.rows * batch.columns;
      for (int64_t column = 0; column < batch.columns; column += width, panel += size) {
        const PanelView view = {a + batch.a[matrix],
                                batch.depth,
                                panel,
                                batch.depth,
                                out + column,
                                batch.columns,
                                batch.columns - column < width ? batch.columns - column : width,
                                low,
                                high};
        run_panel(view, row, end);
      }
    }
  });
}

WeightLinear::WeightLinear(const ProgramTensor& w, int64_t rows, std::vector<float> bias)
    : product_(weight_product(w, rows)),
      weights_(find_or_pack(w, pack_weights)),
      bias_(std::make_shared<std::vector<float>>(std::move(bias))) {}

size_t WeightLinear::scratch_bytes() const { return static_cast<size_t>(product_.scratch_bytes()); }

void WeightLinear::run(std::span<const std::byte* const> from, std::byte* to, std::byte* scratch,
                       const Parallel& parallel) const {
  const std::byte* const all[] = {from[0], weights_->raw(),
                                  reinterpret_cast<const std::byte*>(bias_->data())};
  product_.run(all, to, scratch, parallel);
}

}  // namespace octet::xnnpack
