// Lists the cells, and checks shapes and dtypes.
#include "lowering/program/recurrent.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace octet {
namespace {

using Shape = std::vector<int64_t>;

constexpr RecurrentCell kCells[] = {
    {"lstm", 4, true},
    {"gru", 3},
    {"tanh", 1},
    {"relu", 1},
};

// by position, as in ops.def
enum Input : size_t { kGates, kWeights, kBias, kHidden, kCellState, kProjection };

Verdict check_shape(const char* what, const Shape& shape, const Shape& want) {
  if (shape == want) return Verdict::accept();
  return Verdict::refuse(fmt::format("{} has shape [{}], want [{}]", what, fmt::join(shape, ", "),
                                     fmt::join(want, ", ")));
}

Verdict check_counts(const ProgramOp& op, const RecurrentCell& cell) {
  const bool may_project = cell.has_state && op.inputs.size() == 6;
  if ((op.inputs.size() != (cell.has_state ? 5u : 4u) && !may_project) ||
      op.outputs.size() != (cell.has_state ? 2u : 1u))
    return Verdict::refuse(fmt::format("{} has {} inputs and {} outputs", cell.name,
                                       op.inputs.size(), op.outputs.size()));
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (i != kBias && i != kProjection && op.inputs[i] < 0)
      return Verdict::refuse(fmt::format("recurrent lacks input {}", i));
  return Verdict::accept();
}

Verdict check_dtypes(const Program& program, const ProgramOp& op) {
  for (const std::vector<int>& tensors : {op.inputs, op.outputs})
    for (int index : tensors)
      if (index >= 0 && !is_floating_point(program.tensor(index).dtype))
        return Verdict::refuse(fmt::format("{} is {}, want floats", program.tensor(index).name,
                                           name_of(program.tensor(index).dtype)));
  return Verdict::accept();
}

}  // namespace

const RecurrentCell* find_recurrent_cell(const ProgramOp& op) {
  const std::string name = op.get(attr::kCell);
  for (const RecurrentCell& cell : kCells)
    if (name == cell.name) return &cell;
  return nullptr;
}

Verdict check_recurrent(const Program& program, const ProgramOp& op) {
  const RecurrentCell* cell = find_recurrent_cell(op);
  if (cell == nullptr)
    return Verdict::refuse(fmt::format("unknown cell \"{}\"", op.get(attr::kCell)));
  if (Verdict fits = check_counts(op, *cell); !fits) return fits;
  if (Verdict fits = check_dtypes(program, op); !fits) return fits;
  const Shape& p = program.input(op, kGates).shape;
  const Shape& r = program.input(op, kWeights).shape;
  const int64_t hidden = r.empty() ? 0 : r[0] / cell->gates;
  const bool is_projected = op.has_input(kProjection);
  if (p.size() != 3 || r.size() != 2 || r[0] != cell->gates * hidden || p[2] != r[0] ||
      (!is_projected && r[1] != hidden))
    return Verdict::refuse(fmt::format("gates [{}] do not fit weights [{}] of {}",
                                       fmt::join(p, ", "), fmt::join(r, ", "), cell->name));
  struct Want {
    const char* what;
    const Shape& shape;
    Shape want;
  };
  std::vector<Want> wants;
  const auto expect_input = [&](const char* what, size_t i, Shape want) {
    if (op.has_input(i)) wants.push_back({what, program.input(op, i).shape, std::move(want)});
  };
  const auto expect_output = [&](const char* what, size_t i, Shape want) {
    if (i < op.outputs.size())
      wants.push_back({what, program.tensor(op.outputs[i]).shape, std::move(want)});
  };
  expect_input("the bias", kBias, {r[0]});
  expect_input("a state", kHidden, {p[1], r[1]});
  expect_input("a state", kCellState, {p[1], hidden});
  expect_input("the projection", kProjection, {r[1], hidden});
  expect_output("the output", 0, {p[0], p[1], r[1]});
  expect_output("the cell state", 1, {p[1], hidden});
  for (const Want& want : wants)
    if (Verdict fits = check_shape(want.what, want.shape, want.want); !fits) return fits;
  return Verdict::accept();
}

}  // namespace octet
