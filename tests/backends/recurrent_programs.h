// Programs of one recurrent op, for the tests of each backend that supports it.
#pragma once

#include <string>
#include <vector>

#include "backends/conformance/program_builder.h"

namespace octet {

enum class RecurrentWeights { kFloat, kBytes, kNibbles, kShifted };  // shifted: with zero points

struct RecurrentCase {
  const char* cell;
  int64_t gates;
};
inline constexpr RecurrentCase kRecurrentCases[] = {
    {"lstm", 4}, {"gru", 3}, {"tanh", 1}, {"relu", 1}};

struct RecurrentSizes {
  int64_t steps, batch, hidden;
  int64_t projected = 0;  // the width of the projected hidden state; 0: no projection
  bool has_bias = true;
  bool is_reverse = false;
};

inline int recurrent_weights(ProgramBuilder& b, const std::string& name, int64_t rows,
                             int64_t columns, RecurrentWeights weights) {
  if (weights == RecurrentWeights::kFloat)
    return b.constant(name, random_floats({rows, columns}, -0.3f, 0.3f, 2));
  const int64_t reach = weights == RecurrentWeights::kNibbles ? 7 : 127;
  const Tensor scale =
      Tensor::from<float>(DType::kFloat32, {rows, 1},
                          random_scales(static_cast<size_t>(rows), 0.1f / static_cast<float>(reach),
                                        0.3f / static_cast<float>(reach)));
  const Tensor zero_point =
      weights == RecurrentWeights::kShifted ? random_floats({rows, 1}, -9, 9, 7) : Tensor();
  return b.constant(
      name, StoredConstant{random_integers(DType::kInt8, {rows, columns}, 2, -reach, reach), scale,
                           zero_point});
}

struct RecurrentProgram {
  Program program;
  std::vector<Tensor> inputs;
};

inline RecurrentProgram recurrent_program(const RecurrentCase& cell, const RecurrentSizes& sizes,
                                          RecurrentWeights weights) {
  ProgramBuilder b;
  const int64_t rows = cell.gates * sizes.hidden, batch = sizes.batch,
                width = sizes.projected > 0 ? sizes.projected : sizes.hidden;
  const bool has_cell = cell.gates == 4;
  const int p = b.input("p", DType::kFloat32, {sizes.steps, batch, rows});
  const int h = b.input("h", DType::kFloat32, {batch, width});
  std::vector<int> inputs = {p, recurrent_weights(b, "r", rows, width, weights),
                             sizes.has_bias ? b.constant("b", random_floats({rows}, -1, 1, 3)) : -1,
                             h};
  std::vector<Tensor> values = {random_floats({sizes.steps, batch, rows}, -2, 2, 4),
                                random_floats({batch, width}, -1, 1, 5)};
  if (has_cell) {
    inputs.push_back(b.input("c", DType::kFloat32, {batch, sizes.hidden}));
    values.push_back(random_floats({batch, sizes.hidden}, -1, 1, 6));
  }
  if (sizes.projected > 0)
    inputs.push_back(recurrent_weights(b, "projection", width, sizes.hidden, weights));
  const std::vector<int64_t> shape = {sizes.steps, batch, width};
  const int y = b.op("recurrent", inputs, "y", DType::kFloat32, shape, {},
                     {{"cell", std::string(cell.cell)}, {"reverse", sizes.is_reverse}});
  const int last = has_cell ? b.second_output("last", {batch, sizes.hidden}) : -1;
  b.output(y);
  if (has_cell) b.output(last);
  return {b.finish(), std::move(values)};
}

}  // namespace octet
