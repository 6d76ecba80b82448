// Imports recurrent layers and cells. The input's part of the gates is one linear op for all time
// steps, which is quantized like any other linear. What depends on the hidden state is one op
// "recurrent" for each layer and direction.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "lowering/import/steps.h"

namespace octet {
namespace {

struct Cell {
  const char* op;  // without "_cell"
  const char* name;
  int64_t gates;
};
constexpr std::array<Cell, 4> kCells = {{{"aten.lstm", "lstm", 4},
                                         {"aten.gru", "gru", 3},
                                         {"aten.rnn_tanh", "tanh", 1},
                                         {"aten.rnn_relu", "relu", 1}}};

const Cell& cell_of(const Node& node) {
  for (const Cell& cell : kCells)
    if (node.is(cell.op) || node.is(std::string(cell.op) + "_cell")) return cell;
  return kCells[0];  // the rows below have no other op
}

// Tensors of one layer in one direction; -1: absent.
struct Layer {
  int w = -1;  // [G*H, I]
  int r = -1;  // [G*H, P]; P = H without a projection
  int input_bias = -1;
  int hidden_bias = -1;
  int projection = -1;  // [P, H]; lstm
  int h0 = -1;          // [N, P]
  int c0 = -1;          // [N, H]
  bool is_reverse = false;
};

struct States {
  int y = -1;  // [T, N, P]
  int c = -1;  // [N, H]; lstm
};

// x [T, N, I]
States emit_layer(Steps& s, const Node& node, const Cell& cell, int x, const Layer& layer) {
  const Sizes sizes = s.sizes(x);
  const int64_t rows = s.tensor(layer.r).shape[0], width = s.tensor(layer.r).shape[1];
  const int gates =
      s.op("linear", {x, layer.w, layer.input_bias}, {sizes[0], sizes[1], rows}, DType::kFloat32);
  std::vector<int> inputs = {gates, layer.r, layer.hidden_bias, layer.h0};
  if (layer.c0 >= 0) inputs.push_back(layer.c0);
  if (layer.projection >= 0) inputs.push_back(layer.projection);
  States states;
  states.y = s.op("recurrent", inputs, {sizes[0], sizes[1], width}, DType::kFloat32,
                  {{attr::kCell, std::string(cell.name)}, {attr::kReverse, layer.is_reverse}});
  if (layer.c0 < 0) return states;
  states.c =
      s.add_result(node.name() + "_cell_state", DType::kFloat32, {sizes[1], rows / cell.gates});
  return states;
}

int emit_reshape(Steps& s, int x, const Sizes& sizes) {
  return s.op("reshape", {x}, sizes, s.tensor(x).dtype);
}

// Row `index` of x [L, N, H], as [N, H].
int take_row(Steps& s, int x, const SizeExpr& index) {
  Sizes sizes = s.sizes(x);
  if (sizes[0] == SizeExpr(1)) return emit_reshape(s, x, {sizes[1], sizes[2]});
  sizes[0] = 1;
  const int row = s.op("slice", {x}, sizes, DType::kFloat32,
                       {{attr::kDim, int64_t{0}}, {attr::kStep, int64_t{1}}});
  s.set_size("start", index);
  return emit_reshape(s, row, {sizes[1], sizes[2]});
}

// Stacks tensors [N, H] to [L, N, H].
int stack_rows(Steps& s, const std::vector<int>& rows) {
  const Sizes sizes = s.sizes(rows[0]);
  std::vector<int> wide;
  for (int row : rows) wide.push_back(emit_reshape(s, row, {1, sizes[0], sizes[1]}));
  if (wide.size() == 1) return wide[0];
  return s.op("cat", wide, {static_cast<int64_t>(rows.size()), sizes[0], sizes[1]}, DType::kFloat32,
              {{attr::kDim, int64_t{0}}});
}

int swap_batch_and_time(Steps& s, int x) {
  Sizes sizes = s.sizes(x);
  std::swap(sizes[0], sizes[1]);
  return s.op("permute", {x}, sizes, s.tensor(x).dtype,
              {{attr::kDims, std::vector<int64_t>{1, 0, 2}}});
}

bool are_floats(Steps& s, const std::vector<int>& tensors) {
  for (int index : tensors)
    if (s.tensor(index).dtype != DType::kFloat32) return false;
  return true;
}

// Imports all layers and directions of one recurrent op, in order.
void import_layers(Steps& s, const Node& node) {
  const Cell& cell = cell_of(node);
  const bool is_lstm = cell.gates == 4, has_biases = node.bool_or("has_biases", true),
             batch_first = node.bool_or("batch_first", false);
  const int64_t layers = node.int_or("num_layers", 1),
                directions = node.bool_or("bidirectional", false) ? 2 : 1;
  if (node.find_argument("input") == nullptr) return s.refuse("of packed sequences");
  if (node.bool_or("train", false) && node.float_or("dropout", 0) != 0)
    return s.refuse("in training mode; export in eval mode");
  const std::vector<int> states = s.tensors("hx"), params = s.tensors("params");
  int x = s.input("input");
  if (s.tensor(x).dtype != DType::kFloat32 || !are_floats(s, states) || !are_floats(s, params))
    return s.refuse("of tensors that are not float32");
  if (s.tensor(x).shape.size() != 3 || states.size() != (is_lstm ? 2u : 1u))
    return s.refuse("with states of another form");
  const auto count = static_cast<size_t>(std::max<int64_t>(layers * directions, 1));
  const size_t each = params.size() / count, biases = has_biases ? 2 : 0;
  const bool is_projected = is_lstm && each == 3 + biases;
  if (params.size() % count != 0 || (each != 2 + biases && !is_projected))
    return s.refuse(fmt::format("with {} parameters for {} layers", params.size(), count));
  if (batch_first) x = swap_batch_and_time(s, x);
  const SizeExpr steps = s.sizes(x)[0];
  std::vector<int> last_hidden, last_cell;
  for (int64_t i = 0; i < layers; ++i) {
    std::vector<int> results;
    for (int64_t d = 0; d < directions; ++d) {
      const int64_t index = i * directions + d;
      const int* given = params.data() + static_cast<size_t>(index) * each;
      const Layer layer = {given[0],
                           given[1],
                           has_biases ? given[2] : -1,
                           has_biases ? given[3] : -1,
                           is_projected ? given[each - 1] : -1,
                           take_row(s, states[0], index),
                           is_lstm ? take_row(s, states[1], index) : -1,
                           d == 1};
      const States made = emit_layer(s, node, cell, x, layer);
      results.push_back(made.y);
      last_hidden.push_back(take_row(s, made.y, layer.is_reverse ? SizeExpr(0) : steps - 1));
      if (is_lstm) last_cell.push_back(made.c);
    }
    x = results[0];
    Sizes both = s.sizes(x);
    both.back() = both.back() * directions;
    if (directions == 2)
      x = s.op("cat", results, both, DType::kFloat32, {{attr::kDim, int64_t{2}}});
  }
  s.alias(node.outputs()[0], batch_first ? swap_batch_and_time(s, x) : x);
  s.alias(node.outputs()[1], stack_rows(s, last_hidden));
  if (is_lstm) s.alias(node.outputs()[2], stack_rows(s, last_cell));
}

// Imports one time step.
void import_cell(Steps& s, const Node& node) {
  const Cell& cell = cell_of(node);
  const bool is_lstm = cell.gates == 4;
  const std::vector<int> states = s.tensors("hx");
  const int x = s.input("input"), w = s.input("w_ih"), r = s.input("w_hh");
  const Sizes sizes = s.sizes(x);
  if (!are_floats(s, {x, w, r}) || !are_floats(s, states))
    return s.refuse("of tensors that are not float32");
  if (sizes.size() != 2 || states.size() != (is_lstm ? 2u : 1u))
    return s.refuse("with an input or states of another form");
  const Layer layer = {w,  r,         s.input("b_ih"),          s.input("b_hh"),
                       -1, states[0], is_lstm ? states[1] : -1, false};
  const States made = emit_layer(s, node, cell, emit_reshape(s, x, {1, sizes[0], sizes[1]}), layer);
  s.alias(node.outputs()[0], emit_reshape(s, made.y, s.sizes(states[0])));
  if (is_lstm) s.alias(node.outputs()[1], made.c);
}

constexpr ImportRow kRecurrentRows[] = {
    {"aten.lstm", import_layers},        {"aten.gru", import_layers},
    {"aten.rnn_tanh", import_layers},    {"aten.rnn_relu", import_layers},
    {"aten.lstm_cell", import_cell},     {"aten.gru_cell", import_cell},
    {"aten.rnn_tanh_cell", import_cell}, {"aten.rnn_relu_cell", import_cell},
};

}  // namespace

std::span<const ImportRow> recurrent_import_rows() { return kRecurrentRows; }

}  // namespace octet
