// The inner loops of second-order rounding (weight_rounding.h) over plain arrays, f64 and
// row-major.
#pragma once

#include <cstdint>

namespace octet {

// Rows of weights on their grids: value = scale * (q - zero_point), q a whole number in [low,
// high]. scale and zero_point are [rows, columns].
struct GridRows {
  const double* scale;
  const double* zero_point;
  double low;
  double high;
  int64_t rows;
  int64_t columns;
};

// Rounds the columns [begin, end) from left to right. The error of each column is spread over the
// columns after it, up to `end`, according to `factor`, the upper Cholesky factor of the inverse
// Hessian [columns, columns].
//   target    [rows, columns], in and out: what is left to round
//   q         [rows, columns], out
//   residual  [rows, end - begin], out: error of each column over the factor's diagonal, for the
//             columns from `end` on
void round_columns(const GridRows& grid, const double* factor, int64_t begin, int64_t end,
                   double* target, double* q, double* residual);

// Coordinate descent: changes single q while that lowers v H v^T - 2 v c^T of a row, column by
// column, at most `passes` times over all columns.
//   gradient  [rows, columns], in and out: v H - c
// Returns the number of changes.
int64_t descend(const GridRows& grid, const double* hessian, int passes, double* q,
                double* gradient);

}  // namespace octet
