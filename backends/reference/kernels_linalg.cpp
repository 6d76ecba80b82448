// Linear algebra on batches of matrices, computed in double: systems of equations and determinants
// by elimination with partial pivoting, the Cholesky factor, and QR by Householder reflections with
// LAPACK's signs. Golub and Van Loan, Matrix Computations, sections 3.4, 4.2 and 5.2.
#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "backends/reference/elements.h"

namespace octet::reference {
namespace {

// A row-major matrix.
struct Matrix {
  double* data;
  int64_t rows, columns;
  double& at(int64_t r, int64_t c) const { return data[r * columns + c]; }
};

void swap_rows(const Matrix& m, int64_t a, int64_t b) {
  for (int64_t c = 0; c < m.columns; ++c) std::swap(m.at(a, c), m.at(b, c));
}

// row a -= factor * row b, from column `first` on
void subtract_row(const Matrix& m, int64_t a, double factor, int64_t b, int64_t first) {
  for (int64_t c = first; c < m.columns; ++c) m.at(a, c) -= factor * m.at(b, c);
}

// Makes `a` upper triangular and treats the rows of `b` alike. Returns whether each column has a
// pivot; `determinant` receives that of `a`, which may underflow where it has.
bool eliminate(const Matrix& a, const Matrix& b, double& determinant) {
  determinant = 1;
  for (int64_t c = 0; c < a.columns; ++c) {
    int64_t pivot = c;
    for (int64_t r = c + 1; r < a.rows; ++r)
      if (const double size = std::fabs(a.at(r, c));
          std::isnan(size) || size > std::fabs(a.at(pivot, c)))
        pivot = r;
    if (a.at(pivot, c) == 0) {
      determinant = 0;
      return false;
    }
    if (pivot != c) {
      swap_rows(a, pivot, c);
      swap_rows(b, pivot, c);
      determinant = -determinant;
    }
    determinant *= a.at(c, c);
    for (int64_t r = c + 1; r < a.rows; ++r) {
      const double factor = a.at(r, c) / a.at(c, c);
      subtract_row(a, r, factor, c, c);
      subtract_row(b, r, factor, c, 0);
    }
  }
  return true;
}

// b = the solution x of a x = b, for upper triangular `a`.
void substitute(const Matrix& a, const Matrix& b) {
  for (int64_t r = a.rows; r-- > 0;) {
    for (int64_t c = r + 1; c < a.columns; ++c) subtract_row(b, r, a.at(r, c), c, 0);
    for (int64_t c = 0; c < b.columns; ++c) b.at(r, c) /= a.at(r, r);
  }
}

// Replaces `a` by its lower triangular factor. Returns whether it is positive definite.
bool factor_cholesky(const Matrix& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c <= r; ++c) {
      double rest = a.at(r, c);
      for (int64_t k = 0; k < c; ++k) rest -= a.at(r, k) * a.at(c, k);
      if (r == c && !(rest > 0)) return false;
      a.at(r, c) = r == c ? std::sqrt(rest) : rest / a.at(c, c);
    }
    for (int64_t c = r + 1; c < a.columns; ++c) a.at(r, c) = 0;
  }
  return true;
}

// m -= factor * v * (v^T m), from column `first` on, where v is 1 in row `top` and column `top` of
// `reflectors` below it.
void reflect(const Matrix& m, const Matrix& reflectors, int64_t top, double factor, int64_t first) {
  for (int64_t c = first; c < m.columns; ++c) {
    double sum = m.at(top, c);
    for (int64_t r = top + 1; r < m.rows; ++r) sum += reflectors.at(r, top) * m.at(r, c);
    sum *= factor;
    m.at(top, c) -= sum;
    for (int64_t r = top + 1; r < m.rows; ++r) m.at(r, c) -= reflectors.at(r, top) * sum;
  }
}

// Makes `a` upper triangular, with its reflectors below the diagonal; their factors to `factors`.
void factor_qr(const Matrix& a, std::span<double> factors) {
  for (int64_t c = 0; c < static_cast<int64_t>(factors.size()); ++c) {
    double squares = 0;
    for (int64_t r = c + 1; r < a.rows; ++r) squares += a.at(r, c) * a.at(r, c);
    double& factor = factors[static_cast<size_t>(c)];
    factor = 0;
    if (squares == 0) continue;
    const double head = a.at(c, c), norm = -std::copysign(std::sqrt(head * head + squares), head);
    factor = (norm - head) / norm;
    for (int64_t r = c + 1; r < a.rows; ++r) a.at(r, c) /= head - norm;
    a.at(c, c) = norm;
    reflect(a, a, c, factor, c + 1);
  }
}

// ---- the op

// Rows and columns of the last two dimensions.
Matrix matrix_of(const std::vector<int64_t>& shape) {
  return {nullptr, shape[shape.size() - 2], shape.back()};
}
int64_t area(const Matrix& m) { return m.rows * m.columns; }

// Calls visit(a, number of the matrix) with a copy of each matrix of input 0.
template <typename Visit>
void for_each_matrix(const KernelCall& call, const Visit& visit) {
  Buffer<double> values = elements<double>(call, 0);
  const std::vector<int64_t>& shape = call.input_shape(0);
  Matrix a = matrix_of(shape);
  const int64_t count = product(std::span(shape).first(shape.size() - 2));
  for (int64_t i = 0; i < count; ++i) {
    a.data = values.data() + i * area(a);
    visit(a, i);
  }
}

void solve(const KernelCall& call) {
  Buffer<double> y = elements<double>(call, 1);
  Matrix b = matrix_of(call.input_shape(1));
  for_each_matrix(call, [&](const Matrix& a, int64_t i) {
    b.data = y.data() + i * area(b);
    double unused;
    if (!eliminate(a, b, unused))
      throw Error("run", call.op.name, "the matrix is singular; check the input");
    substitute(a, b);
  });
  store<double>(call, y);
}

void determinant(const KernelCall& call) {
  Buffer<double> y(static_cast<size_t>(call.outputs[0].numel()));
  for_each_matrix(call, [&](const Matrix& a, int64_t i) {
    eliminate(a, {nullptr, a.rows, 0}, y[static_cast<size_t>(i)]);
  });
  store<double>(call, y);
}

void cholesky(const KernelCall& call) {
  Buffer<double> y(static_cast<size_t>(call.outputs[0].numel()));
  for_each_matrix(call, [&](const Matrix& a, int64_t i) {
    if (!factor_cholesky(a))
      throw Error("run", call.op.name, "the matrix is not positive definite; check the input");
    std::copy_n(a.data, area(a), y.data() + i * area(a));
  });
  store<double>(call, y);
}

void qr(const KernelCall& call) {
  Buffer<double> q(static_cast<size_t>(call.outputs[0].numel())),
      r(static_cast<size_t>(call.outputs[1].numel()));
  Matrix to_q = matrix_of(call.output_shape()), to_r = matrix_of(call.output(1).shape);
  Buffer<double> factors(static_cast<size_t>(
      std::min(call.input_shape(0).back(), matrix_of(call.input_shape(0)).rows)));
  for_each_matrix(call, [&](const Matrix& a, int64_t i) {
    factor_qr(a, factors);
    to_r.data = r.data() + i * area(to_r);
    for (int64_t row = 0; row < to_r.rows; ++row)
      for (int64_t c = 0; c < to_r.columns; ++c) to_r.at(row, c) = c < row ? 0 : a.at(row, c);
    to_q.data = q.data() + i * area(to_q);
    for (int64_t row = 0; row < to_q.rows; ++row)
      for (int64_t c = 0; c < to_q.columns; ++c) to_q.at(row, c) = row == c ? 1 : 0;
    for (size_t c = factors.size(); c-- > 0;)
      reflect(to_q, a, static_cast<int64_t>(c), factors[c], 0);
  });
  store<double>(call, q, 0);
  store<double>(call, r, 1);
}

void linalg(const KernelCall& call) {
  const std::string fn = call.op.get(attr::kFn);
  if (fn == "solve") return solve(call);
  if (fn == "det") return determinant(call);
  fn == "qr" ? qr(call) : cholesky(call);
}

Verdict check_linalg(const Program& program, const ProgramOp& op) {
  const std::string fn = op.get(attr::kFn);
  const std::vector<int64_t>& a = find_input(program, op, 0)->shape;
  const bool is_qr = fn == "qr", is_solve = fn == "solve";
  if (a.size() < 2 || (!is_qr && a.back() != a[a.size() - 2]))
    return Verdict::refuse(
        fmt::format("{} needs a{} matrix, got {}", fn, is_qr ? "" : " square", shape_text(a)));
  const ProgramTensor* b = find_input(program, op, 1);
  if ((b != nullptr) != is_solve || (op.outputs.size() == 2) != is_qr)
    return Verdict::refuse(fmt::format("{} has {} and {}", fn,
                                       is_solve ? "two inputs" : "one input",
                                       is_qr ? "two results" : "one result"));
  std::vector<int64_t> want = a;
  if (is_solve) {
    want = b->shape;
    const bool fits = want.size() == a.size() && std::equal(a.begin(), a.end() - 1, want.begin());
    if (!fits)
      return Verdict::refuse(
          fmt::format("{} equations do not fit right sides {}", shape_text(a), shape_text(want)));
  }
  if (fn == "det") want.resize(a.size() - 2);
  if (is_qr) {
    const int64_t rows = a[a.size() - 2], least = std::min(rows, a.back());
    const std::vector<int64_t>& q = program.tensor(op.outputs[0]).shape;
    want.back() = !q.empty() && q.back() == rows ? rows : least;
    std::vector<int64_t> r = a;
    r[r.size() - 2] = want.back();
    if (Verdict shape = check_output_shape(program, op, 1, r); !shape) return shape;
  }
  return check_output_shape(program, op, 0, want);
}

constexpr KernelRow kLinalgKernels[] = {{"linalg", linalg, check_linalg}};

}  // namespace

std::span<const KernelRow> linalg_kernels() { return kLinalgKernels; }

}  // namespace octet::reference
