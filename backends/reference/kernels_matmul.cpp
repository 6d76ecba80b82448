// linear and matmul: integers, including quantized ones, are accumulated as integers, others in
// double.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backends/reference/elements.h"
#include "lowering/program/recurrent.h"

namespace octet::reference {
namespace {

// y[m, n] = sum over k of a[m, k] * b[n, k].
template <typename E, typename Acc, typename Y>
void multiply_rows(int64_t m, int64_t n, int64_t k, const E* a, const E* b, Y* y) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      Acc sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum += static_cast<Acc>(a[i * k + p]) * static_cast<Acc>(b[j * k + p]);
      y[i * n + j] = static_cast<Y>(sum);
    }
}

// y[m, n] = sum over k of a[m, k] * b[k, n].
template <typename E, typename Acc, typename Y>
void multiply(int64_t m, int64_t n, int64_t k, const E* a, const E* b, Y* y) {
  Buffer<Acc> sums(static_cast<size_t>(n));
  for (int64_t i = 0; i < m; ++i) {
    std::fill(sums.begin(), sums.end(), Acc(0));
    for (int64_t p = 0; p < k; ++p) {
      const Acc factor = static_cast<Acc>(a[i * k + p]);
      for (int64_t j = 0; j < n; ++j)
        sums[static_cast<size_t>(j)] += factor * static_cast<Acc>(b[p * n + j]);
    }
    for (int64_t j = 0; j < n; ++j) y[i * n + j] = static_cast<Y>(sums[static_cast<size_t>(j)]);
  }
}

bool is_double(const ProgramTensor& tensor) { return tensor.dtype == DType::kFloat64; }

// Sums that overflow wrap.
void linear_of_integers(const KernelCall& call, int64_t rows, int64_t out, int64_t in) {
  Buffer<int64_t> y(static_cast<size_t>(rows * out));
  multiply_rows<int64_t, uint64_t>(rows, out, in, elements<int64_t>(call, 0).data(),
                                   elements<int64_t>(call, 1).data(), y.data());
  if (call.has_input(2)) {
    const Buffer<int64_t> bias = elements<int64_t>(call, 2);
    for (size_t i = 0; i < y.size(); ++i)
      y[i] = static_cast<int64_t>(static_cast<uint64_t>(y[i]) +
                                  static_cast<uint64_t>(bias[i % bias.size()]));
  }
  store_elements<int64_t>(call, y);
}

void linear(const KernelCall& call) {
  const ProgramTensor& x = call.input(0);
  const ProgramTensor& w = call.input(1);
  const int64_t out = w.shape[0];
  const int64_t in = w.shape[1];
  const int64_t rows =
      in == 0 ? call.outputs[0].numel() / std::max<int64_t>(out, 1) : call.inputs[0].numel() / in;
  if (is_all_whole(call)) return linear_of_integers(call, rows, out, in);
  Buffer<double> y(static_cast<size_t>(rows * out));
  const bool on_integers = is_small_quantized(x) && is_small_quantized(w) &&
                           x.qparams->is_per_tensor() && w.qparams->axis <= 0;
  if (on_integers) {
    const Buffer<int32_t> a = centered(call.inputs[0], x);
    const Buffer<int32_t> b = centered(call.inputs[1], w);
    if (size_of(x.dtype) == 1 && size_of(w.dtype) == 1 && in < 16000) {
      multiply_rows<int32_t, int32_t>(rows, out, in, a.data(), b.data(), y.data());
    } else {
      multiply_rows<int32_t, int64_t>(rows, out, in, a.data(), b.data(), y.data());
    }
  } else if (is_double(x) || is_double(w)) {
    multiply_rows<double, double>(rows, out, in, doubles(call, 0).data(), doubles(call, 1).data(),
                                  y.data());
  } else {
    multiply_rows<float, double>(rows, out, in, floats(call, 0).data(), floats(call, 1).data(),
                                 y.data());
  }
  const Buffer<double> bias = bias_or_zeros(call, 2, out);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < out; ++j) {
      const double scale =
          on_integers ? static_cast<double>(x.qparams->scale[0]) * scale_at(*w.qparams, j) : 1.0;
      double& value = y[static_cast<size_t>(i * out + j)];
      value = value * scale + bias[static_cast<size_t>(j)];
    }
  store<double>(call, y);
}

// Multiplies matrices; batch dimensions broadcast.
template <typename E, typename Acc, typename Y>
void multiply_batches(const KernelCall& call, const E* a, const E* b, Y* y) {
  const std::vector<int64_t>& sa = call.input_shape(0);
  const std::vector<int64_t>& sb = call.input_shape(1);
  const int64_t m = sa[sa.size() - 2], k = sa.back(), n = sb.back();
  const Sizes batch(call.output_shape().begin(), call.output_shape().end() - 2);
  StridedWalk walk_a(batch, broadcast_strides(std::span(sa).first(sa.size() - 2), batch));
  StridedWalk walk_b(batch, broadcast_strides(std::span(sb).first(sb.size() - 2), batch));
  for (int64_t i = 0, count = product(batch); i < count; ++i, walk_a.next(), walk_b.next())
    multiply<E, Acc, Y>(m, n, k, a + walk_a.offset() * m * k, b + walk_b.offset() * k * n,
                        y + i * m * n);
}

void matmul(const KernelCall& call) {
  const ProgramTensor& a = call.input(0);
  const ProgramTensor& b = call.input(1);
  if (is_all_whole(call)) {
    Buffer<int64_t> y(static_cast<size_t>(call.outputs[0].numel()));
    multiply_batches<int64_t, uint64_t>(call, elements<int64_t>(call, 0).data(),
                                        elements<int64_t>(call, 1).data(), y.data());
    return store_elements<int64_t>(call, y);
  }
  Buffer<double> y(static_cast<size_t>(call.outputs[0].numel()));
  if (is_small_quantized(a) && is_small_quantized(b) && a.qparams->is_per_tensor() &&
      b.qparams->is_per_tensor()) {
    multiply_batches<int32_t, int64_t>(call, centered(call.inputs[0], a).data(),
                                       centered(call.inputs[1], b).data(), y.data());
    const double scale =
        static_cast<double>(a.qparams->scale[0]) * static_cast<double>(b.qparams->scale[0]);
    for (double& value : y) value *= scale;
  } else if (is_double(a) || is_double(b)) {
    multiply_batches<double, double>(call, doubles(call, 0).data(), doubles(call, 1).data(),
                                     y.data());
  } else {
    multiply_batches<float, double>(call, floats(call, 0).data(), floats(call, 1).data(), y.data());
  }
  store<double>(call, y);
}

Verdict check_linear(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& x = find_input(program, op, 0)->shape;
  const std::vector<int64_t>& w = find_input(program, op, 1)->shape;
  if (w.size() != 2 || x.empty() || x.back() != w[1])
    return Verdict::refuse(
        fmt::format("input {} does not fit weight {}", shape_text(x), shape_text(w)));
  std::vector<int64_t> want = x;
  want.back() = w[0];
  if (Verdict shape = check_output_shape(program, op, 0, want); !shape) return shape;
  return check_bias(program, op, w[0]);
}

Verdict check_matmul(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>& a = find_input(program, op, 0)->shape;
  const std::vector<int64_t>& b = find_input(program, op, 1)->shape;
  const std::vector<int64_t>& y = program.tensor(op.outputs[0]).shape;
  const bool fits = a.size() >= 2 && b.size() >= 2 && y.size() >= 2 &&
                    a.back() == b[b.size() - 2] && y[y.size() - 2] == a[a.size() - 2] &&
                    y.back() == b.back() &&
                    is_broadcastable({a.begin(), a.end() - 2}, {y.begin(), y.end() - 2}) &&
                    is_broadcastable({b.begin(), b.end() - 2}, {y.begin(), y.end() - 2});
  if (!fits)
    return Verdict::refuse(fmt::format("shapes {} x {} -> {} do not fit", shape_text(a),
                                       shape_text(b), shape_text(y)));
  return Verdict::accept();
}

// ---- recurrent

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// Computes one step of one hidden unit and returns its new hidden state. given: the gates of the
// input; own: the gates of the hidden state, with bias; both with `stride` between gates. cell: the
// cell state of lstm, in and out.
using Unit = double (*)(const double* given, const double* own, int64_t stride, double hidden,
                        double* cell);

double lstm_unit(const double* given, const double* own, int64_t stride, double, double* cell) {
  const auto gate = [&](int64_t i) { return given[i * stride] + own[i * stride]; };
  *cell = logistic(gate(1)) * *cell + logistic(gate(0)) * std::tanh(gate(2));
  return logistic(gate(3)) * std::tanh(*cell);
}

double gru_unit(const double* given, const double* own, int64_t stride, double hidden, double*) {
  const double reset = logistic(given[0] + own[0]), update = logistic(given[stride] + own[stride]);
  const double fresh = std::tanh(given[2 * stride] + reset * own[2 * stride]);
  return (1 - update) * fresh + update * hidden;
}

double tanh_unit(const double* given, const double* own, int64_t, double, double*) {
  return std::tanh(given[0] + own[0]);
}
double relu_unit(const double* given, const double* own, int64_t, double, double*) {
  return std::max(given[0] + own[0], 0.0);
}

struct Cell {
  std::string_view name;
  Unit unit;
};
constexpr Cell kCells[] = {
    {"lstm", lstm_unit},
    {"gru", gru_unit},
    {"tanh", tanh_unit},
    {"relu", relu_unit},
};

Unit unit_of(const RecurrentCell& cell) {
  return std::find_if(std::begin(kCells), std::end(kCells),
                      [&](const Cell& row) { return row.name == cell.name; })
      ->unit;
}

// result[n, row] = bias[row] + sum over k of x[n, k] * w[row, k]; x: [batch, columns].
void multiply(const double* x, const Reals<double>& w, const Buffer<double>& bias, int64_t columns,
              Buffer<double>& result) {
  const auto rows = static_cast<int64_t>(bias.size());
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t n = static_cast<int64_t>(i) / rows, row = static_cast<int64_t>(i) % rows;
    double sum = bias[static_cast<size_t>(row)];
    for (int64_t k = 0; k < columns; ++k) sum += x[n * columns + k] * w[row * columns + k];
    result[i] = sum;
  }
}

void recurrent(const KernelCall& call) {
  const RecurrentCell& cell = *find_recurrent_cell(call.op);
  const Unit unit = unit_of(cell);
  const int64_t steps = call.input_shape(0)[0], batch = call.input_shape(0)[1],
                rows = call.input_shape(1)[0], width = call.input_shape(1)[1],
                hidden = rows / cell.gates;
  const Reals<double> given = doubles(call, 0), weights = doubles(call, 1), h0 = doubles(call, 3);
  std::optional<Reals<double>> projection;
  if (call.has_input(5)) projection.emplace(call.inputs[5], call.input(5));
  const Buffer<double> bias = bias_or_zeros(call, 2, rows), none(static_cast<size_t>(width), 0.0);
  Buffer<double> state(h0.data(), h0.data() + h0.size()),
      cells(static_cast<size_t>(batch * hidden), 0.0), fresh(cells.size());
  if (call.has_input(4)) {
    const Reals<double> c0 = doubles(call, 4);
    cells.assign(c0.data(), c0.data() + c0.size());
  }
  Buffer<double> y(static_cast<size_t>(steps * batch * width)),
      own(static_cast<size_t>(batch * rows));
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t t = call.op.get(attr::kReverse) ? steps - 1 - step : step;
    multiply(state.data(), weights, bias, width, own);
    for (int64_t i = 0; i < batch * hidden; ++i) {
      const int64_t first = i / hidden * rows + i % hidden;
      const double before = projection ? 0 : state[static_cast<size_t>(i)];  // not read by lstm
      fresh[static_cast<size_t>(i)] =
          unit(given.data() + t * batch * rows + first, own.data() + first, hidden, before,
               &cells[static_cast<size_t>(i)]);
    }
    if (projection)
      multiply(fresh.data(), *projection, none, hidden, state);
    else
      std::copy(fresh.begin(), fresh.end(), state.begin());
    std::copy(state.begin(), state.end(), y.begin() + t * batch * width);
  }
  store<double>(call, y);
  if (call.outputs.size() > 1) store<double>(call, cells, 1);
}

// ---- attention

// Turns scores into the weights of their columns.
void softmax_of(std::span<double> scores, bool is_masked) {
  double greatest = -INFINITY, sum = 0;
  for (double score : scores) greatest = greater(greatest, score);
  if (is_masked && greatest == -INFINITY) return std::fill(scores.begin(), scores.end(), 0.0);
  for (double& score : scores) sum += score = std::exp(score - greatest);
  for (double& score : scores) score /= sum;
}

// Keys or values: input i, and input i + 3 with a scale for each row if these are integers.
class CachedRows {
 public:
  CachedRows(const KernelCall& call, size_t i)
      : elements_(doubles(call, i)), width_(call.input_shape(i)[3]) {
    if (call.has_input(i + 3)) scales_.emplace(call.inputs[i + 3], call.input(i + 3));
  }
  // Rounded to float, as dequantized values are.
  double operator[](int64_t i) const {
    return scales_ ? static_cast<float>(elements_[i] * double{(*scales_)[i / width_]})
                   : elements_[i];
  }

 private:
  Reals<double> elements_;
  int64_t width_;
  std::optional<Reals<float>> scales_;
};

void attention(const KernelCall& call) {
  const std::vector<int64_t>&qs = call.input_shape(0), &vs = call.input_shape(2);
  const int64_t heads = qs[1], rows = qs[2], depth = qs[3], groups = vs[1], columns = vs[2],
                width = vs[3];
  const Reals<double> q = doubles(call, 0);
  const CachedRows k(call, 1), v(call, 2);
  const double scale = call.op.get(attr::kScale), cap = call.op.get(attr::kSoftcap);
  std::optional<Reals<double>> mask;
  if (call.has_input(3)) mask.emplace(call.inputs[3], call.input(3));
  const int64_t all[] = {qs[0], heads, rows, columns};
  StridedWalk hidden(all, mask ? broadcast_strides(call.input_shape(3), all) : Sizes(4, 0));
  Buffer<double> scores(static_cast<size_t>(columns));
  Buffer<double> y(static_cast<size_t>(call.outputs[0].numel()), 0.0);
  for (int64_t row = 0; row < qs[0] * heads * rows; ++row) {
    const int64_t head = row / rows, cache = head / heads * groups + head % heads * groups / heads;
    for (int64_t j = 0; j < columns; ++j, hidden.next()) {
      double score = 0;
      for (int64_t i = 0; i < depth; ++i)
        score += q[row * depth + i] * k[(cache * columns + j) * depth + i];
      score *= scale;
      if (cap != 0) score = cap * std::tanh(score / cap);
      scores[static_cast<size_t>(j)] = score + (mask ? (*mask)[hidden.offset()] : 0);
    }
    softmax_of(scores, call.op.get(attr::kMasked));
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < width; ++i)
        y[static_cast<size_t>(row * width + i)] +=
            scores[static_cast<size_t>(j)] * v[(cache * columns + j) * width + i];
  }
  store<double>(call, y);
}

Verdict check_attention(const Program& program, const ProgramOp& op) {
  const std::vector<int64_t>&q = program.input(op, 0).shape, &k = program.input(op, 1).shape,
        &v = program.input(op, 2).shape;
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || k[0] != q[0] || v[0] != q[0] ||
      k[3] != q[3] || v[1] != k[1] || v[2] != k[2] || k[1] == 0 || q[1] % k[1] != 0)
    return Verdict::refuse(fmt::format("keys {} and values {} do not fit queries {}", shape_text(k),
                                       shape_text(v), shape_text(q)));
  const std::vector<int64_t> scores = {q[0], q[1], q[2], k[2]};
  if (op.has_input(3) && !is_broadcastable(program.input(op, 3).shape, scores))
    return Verdict::refuse(fmt::format("the mask {} does not broadcast to {}",
                                       shape_text(program.input(op, 3).shape), shape_text(scores)));
  for (size_t i = 1; i <= 2; ++i) {
    if (!op.has_input(4) && !op.has_input(5)) break;
    const ProgramTensor& rows = program.input(op, i);
    std::vector<int64_t> shape = rows.shape;
    shape[3] = 1;
    if (!op.has_input(i + 3) || program.input(op, i + 3).dtype != DType::kFloat32 ||
        program.input(op, i + 3).shape != shape || rows.dtype != DType::kInt8 || !rows.qparams ||
        !rows.qparams->is_identity())
      return Verdict::refuse(fmt::format("{} is not int8 with scale 1 and float32 scales {}",
                                         rows.name, shape_text(shape)));
  }
  return check_output_shape(program, op, 0, {q[0], q[1], q[2], v[3]});
}

// ---- the rows

constexpr KernelRow kMatmulKernels[] = {
    {"linear", linear, check_linear},
    {"matmul", matmul, check_matmul},
    {"recurrent", recurrent, check_recurrent},
    {"attention", attention, check_attention},
};

}  // namespace

std::span<const KernelRow> matmul_kernels() { return kMatmulKernels; }

}  // namespace octet::reference
