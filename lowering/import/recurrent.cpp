// Recurrent layers and cells. The input's part of the gates is one linear op for all time steps,
// which is quantized as any other linear is; what depends on the hidden state is one op "recurrent"
// for each layer and direction.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "lowering/import/importer.h"

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
  return kCells[0];  // the rows below name no other op
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
States emit_layer(Importer& importer, const Node& node, const Cell& cell, int x,
                  const Layer& layer) {
  const Sizes sizes = importer.sizes(x);
  const int64_t rows = importer.tensor(layer.r).shape[0], width = importer.tensor(layer.r).shape[1];
  const int gates = importer.emit_step(node, "linear", {x, layer.w, layer.input_bias},
                                       {sizes[0], sizes[1], rows}, DType::kFloat32);
  std::vector<int> inputs = {gates, layer.r, layer.hidden_bias, layer.h0};
  if (layer.c0 >= 0) inputs.push_back(layer.c0);
  if (layer.projection >= 0) inputs.push_back(layer.projection);
  States states;
  states.y =
      importer.emit_step(node, "recurrent", inputs, {sizes[0], sizes[1], width}, DType::kFloat32,
                         {{"cell", std::string(cell.name)}, {"reverse", layer.is_reverse}});
  if (layer.c0 < 0) return states;
  states.c = importer.add_intermediate(node.name() + "_cell_state", DType::kFloat32,
                                       {sizes[1], rows / cell.gates});
  importer.program().ops.back().outputs.push_back(states.c);
  return states;
}

int emit_reshape(Importer& importer, const Node& node, int x, const Sizes& sizes) {
  return importer.emit_step(node, "reshape", {x}, sizes, importer.tensor(x).dtype);
}

// x[index] of x [L, N, H], as [N, H].
int take_row(Importer& importer, const Node& node, int x, const SizeExpr& index) {
  Sizes sizes = importer.sizes(x);
  if (sizes[0] == SizeExpr(1)) return emit_reshape(importer, node, x, {sizes[1], sizes[2]});
  sizes[0] = 1;
  const int row = importer.emit_step(node, "slice", {x}, sizes, DType::kFloat32,
                                     {{"dim", int64_t{0}}, {"step", int64_t{1}}});
  importer.set_size("start", index);
  return emit_reshape(importer, node, row, {sizes[1], sizes[2]});
}

// [N, H] each, as [L, N, H].
int stack_rows(Importer& importer, const Node& node, const std::vector<int>& rows) {
  const Sizes sizes = importer.sizes(rows[0]);
  std::vector<int> wide;
  for (int row : rows) wide.push_back(emit_reshape(importer, node, row, {1, sizes[0], sizes[1]}));
  if (wide.size() == 1) return wide[0];
  return importer.emit_step(node, "cat", wide,
                            {static_cast<int64_t>(rows.size()), sizes[0], sizes[1]},
                            DType::kFloat32, {{"dim", int64_t{0}}});
}

int swap_batch_and_time(Importer& importer, const Node& node, int x) {
  Sizes sizes = importer.sizes(x);
  std::swap(sizes[0], sizes[1]);
  return importer.emit_step(node, "permute", {x}, sizes, importer.tensor(x).dtype,
                            {{"dims", std::vector<int64_t>{1, 0, 2}}});
}

std::vector<int> tensors_of(Importer& importer, const Node& node, const char* name) {
  std::vector<int> tensors;
  if (const Argument* argument = node.find_argument(name); argument != nullptr)
    for_each_value(*argument, [&](Value* value) { tensors.push_back(importer.tensor_of(value)); });
  return tensors;
}

bool are_floats(Importer& importer, const std::vector<int>& tensors) {
  for (int index : tensors)
    if (importer.tensor(index).dtype != DType::kFloat32) return false;
  return true;
}

// Layers of one recurrent op, both directions, one after the other.
void import_layers(Importer& importer, const Node& node) {
  const Cell& cell = cell_of(node);
  const bool is_lstm = cell.gates == 4, has_biases = node.bool_or("has_biases", true),
             batch_first = node.bool_or("batch_first", false);
  const int64_t layers = node.int_or("num_layers", 1),
                directions = node.bool_or("bidirectional", false) ? 2 : 1;
  if (node.find_argument("input") == nullptr) return importer.refuse(node, "of packed sequences");
  if (node.bool_or("train", false) && node.float_or("dropout", 0) != 0)
    return importer.refuse(node, "in training mode; export in eval mode");
  const std::vector<int> states = tensors_of(importer, node, "hx"),
                         params = tensors_of(importer, node, "params");
  int x = importer.operand(node, "input");
  if (importer.tensor(x).dtype != DType::kFloat32 || !are_floats(importer, states) ||
      !are_floats(importer, params))
    return importer.refuse(node, "of tensors that are not float32");
  if (importer.tensor(x).shape.size() != 3 || states.size() != (is_lstm ? 2u : 1u))
    return importer.refuse(node, "with states of another form");
  const auto count = static_cast<size_t>(std::max<int64_t>(layers * directions, 1));
  const size_t each = params.size() / count, biases = has_biases ? 2 : 0;
  const bool is_projected = is_lstm && each == 3 + biases;
  if (params.size() % count != 0 || (each != 2 + biases && !is_projected))
    return importer.refuse(node,
                           fmt::format("with {} parameters for {} layers", params.size(), count));
  if (batch_first) x = swap_batch_and_time(importer, node, x);
  const SizeExpr steps = importer.sizes(x)[0];
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
                           take_row(importer, node, states[0], index),
                           is_lstm ? take_row(importer, node, states[1], index) : -1,
                           d == 1};
      const States made = emit_layer(importer, node, cell, x, layer);
      results.push_back(made.y);
      last_hidden.push_back(
          take_row(importer, node, made.y, layer.is_reverse ? SizeExpr(0) : steps - 1));
      if (is_lstm) last_cell.push_back(made.c);
    }
    x = results[0];
    Sizes both = importer.sizes(x);
    both.back() = both.back() * directions;
    if (directions == 2)
      x = importer.emit_step(node, "cat", results, both, DType::kFloat32, {{"dim", int64_t{2}}});
  }
  importer.alias(node.outputs()[0], batch_first ? swap_batch_and_time(importer, node, x) : x);
  importer.alias(node.outputs()[1], stack_rows(importer, node, last_hidden));
  if (is_lstm) importer.alias(node.outputs()[2], stack_rows(importer, node, last_cell));
}

// One time step.
void import_cell(Importer& importer, const Node& node) {
  const Cell& cell = cell_of(node);
  const bool is_lstm = cell.gates == 4;
  const std::vector<int> states = tensors_of(importer, node, "hx");
  const int x = importer.operand(node, "input"), w = importer.operand(node, "w_ih"),
            r = importer.operand(node, "w_hh");
  const Sizes sizes = importer.sizes(x);
  if (!are_floats(importer, {x, w, r}) || !are_floats(importer, states))
    return importer.refuse(node, "of tensors that are not float32");
  if (sizes.size() != 2 || states.size() != (is_lstm ? 2u : 1u))
    return importer.refuse(node, "with an input or states of another form");
  const Layer layer = {
      w,  r,         importer.operand(node, "b_ih"), importer.operand(node, "b_hh"),
      -1, states[0], is_lstm ? states[1] : -1,       false};
  const States made = emit_layer(importer, node, cell,
                                 emit_reshape(importer, node, x, {1, sizes[0], sizes[1]}), layer);
  importer.alias(node.outputs()[0],
                 emit_reshape(importer, node, made.y, importer.sizes(states[0])));
  if (is_lstm) importer.alias(node.outputs()[1], made.c);
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
