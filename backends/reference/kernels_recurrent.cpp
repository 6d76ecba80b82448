// Recurrent layers: one step after the other, in double.
#include <algorithm>
#include <cmath>

#include "backends/reference/kernel.h"
#include "lowering/program/recurrent.h"

namespace octet::reference {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// What one step reads and writes for one hidden unit. given: the gates of the input; own: those of
// the hidden state, with its bias; both with `stride` between gates. cell: lstm's, in and out.
// Gives the new hidden state.
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

// result[n, row] = bias[row] + the sum of x[n, k] * w[row, k]; x [batch, columns].
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
    const int64_t t = call.op.flag("reverse") ? steps - 1 - step : step;
    multiply(state.data(), weights, bias, width, own);
    for (int64_t i = 0; i < batch * hidden; ++i) {
      const int64_t first = i / hidden * rows + i % hidden;
      const double before = projection ? 0 : state[static_cast<size_t>(i)];  // lstm reads none
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

constexpr KernelRow kRecurrentKernels[] = {
    {"recurrent", recurrent, check_recurrent},
};

}  // namespace

std::span<const KernelRow> recurrent_kernels() { return kRecurrentKernels; }

}  // namespace octet::reference
