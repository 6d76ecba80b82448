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

void recurrent(const KernelCall& call) {
  const Cell& cell = *find_cell(call.op);
  const int64_t steps = call.input_shape(0)[0], batch = call.input_shape(0)[1],
                rows = call.input_shape(1)[0], hidden = call.input_shape(1)[1];
  const Reals<double> given = doubles(call, 0), weights = doubles(call, 1), h0 = doubles(call, 3);
  const Buffer<double> bias = bias_or_zeros(call, 2, rows);
  Buffer<double> state(h0.data(), h0.data() + h0.size()), cells(state.size(), 0.0);
  if (call.has_input(4)) {
    const Reals<double> c0 = doubles(call, 4);
    cells.assign(c0.data(), c0.data() + c0.size());
  }
  Buffer<double> y(static_cast<size_t>(steps * batch * hidden)),
      own(static_cast<size_t>(batch * rows));
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t t = call.op.flag("reverse") ? steps - 1 - step : step;
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t row = 0; row < rows; ++row) {
        double sum = bias[static_cast<size_t>(row)];
        for (int64_t k = 0; k < hidden; ++k)
          sum += state[static_cast<size_t>(n * hidden + k)] * weights[row * hidden + k];
        own[static_cast<size_t>(n * rows + row)] = sum;
      }
    for (int64_t i = 0; i < batch * hidden; ++i) {
      const int64_t first = i / hidden * rows + i % hidden;
      state[static_cast<size_t>(i)] =
          cell.unit(given.data() + t * batch * rows + first, own.data() + first, hidden,
                    state[static_cast<size_t>(i)], &cells[static_cast<size_t>(i)]);
    }
    std::copy(state.begin(), state.end(), y.begin() + t * batch * hidden);
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
  if (op.inputs.size() != (has_cells ? 5u : 4u) || op.outputs.size() != (has_cells ? 2u : 1u))
    return Verdict::refuse(fmt::format("{} has {} inputs and {} outputs", cell->name,
                                       op.inputs.size(), op.outputs.size()));
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (i != 2 && op.inputs[i] < 0)
      return Verdict::refuse(fmt::format("recurrent lacks input {}", i));
  const std::vector<int64_t>& p = find_input(program, op, 0)->shape;
  const std::vector<int64_t>& r = find_input(program, op, 1)->shape;
  if (p.size() != 3 || r.size() != 2 || r[0] != cell->gates * r[1] || p[2] != r[0])
    return Verdict::refuse(fmt::format("gates {} do not fit weights {} of {}", shape_text(p),
                                       shape_text(r), cell->name));
  const auto output = [&](size_t i) { return program.tensor(op.outputs[i]).shape; };
  if (const ProgramTensor* bias = find_input(program, op, 2))
    if (Verdict fits = check_shape("the bias", bias->shape, {r[0]}); !fits) return fits;
  const std::vector<int64_t> state = {p[1], r[1]};
  for (size_t i = 3; i < op.inputs.size(); ++i)
    if (Verdict fits = check_shape("a state", find_input(program, op, i)->shape, state); !fits)
      return fits;
  if (Verdict fits = check_shape("the output", output(0), {p[0], p[1], r[1]}); !fits || !has_cells)
    return fits;
  return check_shape("the cell state", output(1), state);
}

constexpr KernelRow kRecurrentKernels[] = {
    {"recurrent", recurrent, check_recurrent},
};

}  // namespace

std::span<const KernelRow> recurrent_kernels() { return kRecurrentKernels; }

}  // namespace octet::reference
