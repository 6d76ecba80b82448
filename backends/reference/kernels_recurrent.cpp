// Recurrent layers: one step after the other, in double.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "backends/reference/kernel.h"

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
  const char* name;
  int64_t gates;
  Unit unit;
};
constexpr Cell kCells[] = {
    {"lstm", 4, lstm_unit},
    {"gru",  3, gru_unit },
    {"tanh", 1, tanh_unit},
    {"relu", 1, relu_unit},
};

const Cell* find_cell(const ProgramOp& op) {
  const std::string name = op.text("cell", "");
  for (const Cell& cell : kCells)
    if (name == cell.name) return &cell;
  return nullptr;
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
  const Cell& cell = *find_cell(call.op);
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
          cell.unit(given.data() + t * batch * rows + first, own.data() + first, hidden, before,
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

// ---- check

Verdict check_shape(const char* what, const std::vector<int64_t>& shape,
                    const std::vector<int64_t>& want) {
  if (shape == want) return Verdict::accept();
  return Verdict::refuse(
      fmt::format("{} has shape {}, want {}", what, shape_text(shape), shape_text(want)));
}

Verdict check_recurrent(const Program& program, const ProgramOp& op) {
  const Cell* cell = find_cell(op);
  if (cell == nullptr)
    return Verdict::refuse(fmt::format("unknown cell \"{}\"", op.text("cell", "")));
  const bool has_cells = cell->unit == lstm_unit;
  const bool may_project = has_cells && op.inputs.size() == 6;
  if ((op.inputs.size() != (has_cells ? 5u : 4u) && !may_project) ||
      op.outputs.size() != (has_cells ? 2u : 1u))
    return Verdict::refuse(fmt::format("{} has {} inputs and {} outputs", cell->name,
                                       op.inputs.size(), op.outputs.size()));
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (i != 2 && i != 5 && op.inputs[i] < 0)
      return Verdict::refuse(fmt::format("recurrent lacks input {}", i));
  const std::vector<int64_t>& p = find_input(program, op, 0)->shape;
  const std::vector<int64_t>& r = find_input(program, op, 1)->shape;
  const int64_t hidden = r.empty() ? 0 : r[0] / cell->gates;
  const bool is_projected = op.has_input(5);
  if (p.size() != 3 || r.size() != 2 || r[0] != cell->gates * hidden || p[2] != r[0] ||
      (!is_projected && r[1] != hidden))
    return Verdict::refuse(fmt::format("gates {} do not fit weights {} of {}", shape_text(p),
                                       shape_text(r), cell->name));
  const auto output = [&](size_t i) { return program.tensor(op.outputs[i]).shape; };
  if (const ProgramTensor* bias = find_input(program, op, 2))
    if (Verdict fits = check_shape("the bias", bias->shape, {r[0]}); !fits) return fits;
  const std::vector<int64_t> state = {p[1], r[1]}, cells = {p[1], hidden};
  if (Verdict fits = check_shape("a state", find_input(program, op, 3)->shape, state); !fits)
    return fits;
  if (has_cells)
    if (Verdict fits = check_shape("a state", find_input(program, op, 4)->shape, cells); !fits)
      return fits;
  if (is_projected)
    if (Verdict fits =
            check_shape("the projection", find_input(program, op, 5)->shape, {r[1], hidden});
        !fits)
      return fits;
  if (Verdict fits = check_shape("the output", output(0), {p[0], p[1], r[1]}); !fits || !has_cells)
    return fits;
  return check_shape("the cell state", output(1), cells);
}

constexpr KernelRow kRecurrentKernels[] = {
    {"recurrent", recurrent, check_recurrent},
};

}  // namespace

std::span<const KernelRow> recurrent_kernels() { return kRecurrentKernels; }

}  // namespace octet::reference
