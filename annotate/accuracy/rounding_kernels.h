// The inner loops of weight rounding, over plain arrays. Everything is f64 and row-major.
#pragma once

#include <cstdint>

namespace octet {

// Rows of weights on their grids: value = scale * (q - zero_point), q a whole number in [low,
// high]. Arrays of [rows, columns].
struct GridRows {
  const double* scale;
  const double* zero_point;
  double low;
  double high;
  int64_t rows;
  int64_t columns;
};

// Rounds the columns [begin, end) one after the other. The error that each leaves is spread over
// the columns behind it, up to `end`, as `factor` says: the upper Cholesky factor of the inverse
// Hessian [columns, columns].
//   target    [rows, columns], changed: what is left to round
//   q         [rows, columns], out
//   residual  [rows, end - begin], out: error of each column over the factor's diagonal, for the
//             columns behind `end`
void round_columns(const GridRows& grid, const double* factor, int64_t begin, int64_t end,
                   double* target, double* q, double* residual);

// Changes single q as long as that lowers v H v^T - 2 v c^T of a row, column after column, at most
// `passes` times over all columns.
//   gradient  [rows, columns], changed: v H - c
// Returns the number of changes.
int64_t descend(const GridRows& grid, const double* hessian, int passes, double* q,
                double* gradient);

}  // namespace octet
