#include "annotate/accuracy/rounding_kernels.h"

#include <algorithm>
#include <cmath>

#include "core/base/vector_clones.h"

namespace octet {
namespace {

OCTET_VECTOR_CLONES void add_scaled(double* sum, double factor, const double* x, int64_t count) {
  for (int64_t k = 0; k < count; ++k) sum[k] += factor * x[k];
}

double on_grid(double value, double scale, double zero_point, double low, double high) {
  return std::min(std::max(std::nearbyint(value / scale) + zero_point, low), high);
}

}  // namespace

void round_columns(const GridRows& grid, const double* factor, int64_t begin, int64_t end,
                   double* target, double* q, double* residual) {
  for (int64_t r = 0; r < grid.rows; ++r) {
    const int64_t row = r * grid.columns;
    for (int64_t j = begin; j < end; ++j) {
      const double* spread = factor + j * grid.columns;
      const double scale = grid.scale[row + j];
      const double zero_point = grid.zero_point[row + j];
      q[row + j] = on_grid(target[row + j], scale, zero_point, grid.low, grid.high);
      const double error = (target[row + j] - scale * (q[row + j] - zero_point)) / spread[j];
      residual[r * (end - begin) + (j - begin)] = error;
      add_scaled(target + row + j, -error, spread + j, end - j);
    }
  }
}

int64_t descend(const GridRows& grid, const double* hessian, int passes, double* q,
                double* gradient) {
  int64_t changes = 0;
  for (int64_t r = 0; r < grid.rows; ++r) {
    const int64_t row = r * grid.columns;
    double* g = gradient + row;
    bool changed = true;
    for (int pass = 0; pass < passes && changed; ++pass) {
      changed = false;
      for (int64_t j = 0; j < grid.columns; ++j) {
        const double* h = hessian + j * grid.columns;
        const double scale = grid.scale[row + j];
        const double value = scale * (q[row + j] - grid.zero_point[row + j]);
        const double best =
            on_grid(value - g[j] / h[j], scale, grid.zero_point[row + j], grid.low, grid.high);
        const double step = scale * (best - q[row + j]);
        // The objective changes by step * (2 g + step * h). Steps that gain no more than rounding
        // noise are skipped.
        if (step == 0 || step * (2 * g[j] + step * h[j]) >= -1e-12 * step * step * h[j]) continue;
        q[row + j] = best;
        add_scaled(g, step, h, grid.columns);
        changed = true;
        ++changes;
      }
    }
  }
  return changes;
}

}  // namespace octet
