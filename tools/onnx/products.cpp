// Writes convolutions, linear layers, matrix products and recurrent layers.
#include <cmath>

#include "lowering/program/quantized_constants.h"
#include "lowering/program/stored_constant.h"
#include "tools/onnx/steps.h"

namespace octet {
namespace {

// ---- bias

// A constant bias of a quantized product in the form that runtimes want: i32 with the product of
// both scales. Nullopt if there are no such scales, or if a number does not fit.
std::optional<std::string> integer_bias(OnnxSteps& s) {
  const ProgramTensor* given = s.find_constant(2);
  const std::optional<OnnxQParams> left = find_activation_qparams(s, 0);
  const std::optional<StoredConstant> weight = find_stored_weight(s, 1);
  const std::optional<OnnxQParams> right = weight ? find_qparams(*weight) : std::nullopt;
  if (given == nullptr || given->dtype != DType::kFloat32 || !left || !right || right->is_blocked())
    return std::nullopt;
  const std::vector<float>& scales = right->scale;
  const size_t count = static_cast<size_t>(given->numel());
  if (scales.size() != 1 && scales.size() != count) return std::nullopt;
  OnnxQParams qparams;
  qparams.dtype = DType::kInt32;
  qparams.shape = {given->numel()};
  const Tensor values = constant_data(*given).contiguous();
  std::vector<int32_t> integers;
  for (size_t i = 0; i < count; ++i) {
    const float scale = left->scale[0] * scales[scales.size() == 1 ? 0 : i];
    const double value = std::nearbyint(values.data<float>()[i] / static_cast<double>(scale));
    if (!(std::abs(value) < 2147483648.0)) return std::nullopt;
    qparams.scale.push_back(scale);
    integers.push_back(static_cast<int32_t>(value));
  }
  qparams.zero_point.assign(count, 0);
  const std::string name =
      s.writer.add_initializer(s.writer.constant_name(given->name),
                               Tensor::from<int32_t>(DType::kInt32, {given->numel()}, integers));
  return dequantized(s, name, qparams);
}

// ONNX Runtime computes a linear layer on integers only with such a bias.
std::string bias_of(OnnxSteps& s, bool is_integer = true) {
  const std::optional<std::string> integer = is_integer ? integer_bias(s) : std::nullopt;
  return integer ? *integer : s.x(2);
}

// ---- convolutions

void write_conv(OnnxSteps& s) {
  const std::vector<int64_t>& shape = s.in(1).shape;
  const size_t spatial = shape.size() - 2;
  const std::vector<int64_t> ones(spatial, 1), zeros(spatial, 0);
  std::vector<int64_t> pads = s.source.get(attr::kPadding, zeros);
  const std::vector<int64_t> ends = s.source.get(attr::kPaddingEnd, pads);
  pads.insert(pads.end(), ends.begin(), ends.end());
  OnnxAttributes attributes = {
      {"kernel_shape", std::vector<int64_t>(shape.begin() + 2, shape.end())},
      {"strides", s.source.get(attr::kStride, ones)},
      {"pads", pads},
      {"dilations", s.source.get(attr::kDilation, ones)},
      {"group", s.source.get(attr::kGroups)}};
  const bool is_transposed = s.source.is("conv_transpose");
  if (is_transposed)
    attributes.emplace_back("output_padding", s.source.get(attr::kOutputPadding, zeros));
  const std::string x = s.x(0), w = s.x(1), bias = bias_of(s, s.writer.has_integer_biases());
  s.give(s.op(is_transposed ? "ConvTranspose" : "Conv", {x, w, bias}, std::move(attributes)));
}

// ---- linear

// Transposes [out, in] to [in, out]. A weight that only this op reads is stored transposed.
std::string transposed_weight(OnnxSteps& s) {
  if (const std::optional<StoredConstant> stored = find_stored_weight(s, 1))
    return dequantized(s, weight_name(s, 1), permuted(*stored, {1, 0}));
  const ProgramTensor* constant = s.find_constant(1);
  const bool is_read_once =
      s.writer.scope().users[static_cast<size_t>(s.source.inputs[1])].size() == 1;
  if (constant == nullptr || !is_read_once || constant->stored) return s.transpose(s.x(1), {1, 0});
  return s.writer.add_initializer(s.writer.constant_name(constant->name),
                                  permute_constant(constant->data.contiguous(), {1, 0}));
}

void write_linear(OnnxSteps& s) {
  if (give_integer_linear(s)) return;
  const std::optional<StoredConstant> stored = find_stored_weight(s, 1);
  const bool is_blocked = stored && find_qparams(*stored)->is_blocked();
  if (s.rank(0) == 2 && !is_blocked) {
    const std::string x = s.x(0), w = s.x(1), bias = bias_of(s);
    return s.give(s.op("Gemm", {x, w, bias}, {{"transB", int64_t{1}}}));
  }
  if (is_blocked && !s.need(21, "scales of blocks")) return;
  std::string y = s.op("MatMul", {s.x(0), transposed_weight(s)});
  if (s.has(2)) y = s.add(y, bias_of(s));
  s.give(y);
}

void write_matmul(OnnxSteps& s) { s.give(s.op("MatMul", {s.x(0), s.x(1)})); }

// ---- attention

// Repeats each head [N,G,S,D] as often as those of q [N,H,L,D] require.
std::string repeated_heads(OnnxSteps& s, size_t i) {
  const std::vector<int64_t>& x = s.in(i).shape;
  const int64_t heads = s.in(0).shape[1];
  if (x[1] == heads) return s.x(i);
  const std::string wide =
      s.op("Expand", {s.unsqueeze(s.x(i), {2}), s.ints({x[0], x[1], heads / x[1], x[2], x[3]})});
  return s.reshape(wide, {x[0], heads, x[2], x[3]});
}

void write_attention(OnnxSteps& s) {
  const std::string keys = s.transpose(repeated_heads(s, 1), {0, 1, 3, 2});
  std::string scores = s.mul(s.op("MatMul", {s.x(0), keys}), s.number(s.source.get(attr::kScale)));
  if (const double cap = s.source.get(attr::kSoftcap); cap != 0)
    scores = s.mul(s.op("Tanh", {s.div(scores, s.number(cap))}), s.number(cap));
  if (s.has(3)) scores = s.add(scores, s.x(3));
  std::string p = s.op("Softmax", {scores}, {{"axis", int64_t{3}}});
  if (s.source.get(attr::kMasked)) p = s.op("Where", {s.op("IsNaN", {p}), s.number(0), p});
  s.give(s.op("MatMul", {p, repeated_heads(s, 2)}));
}

// ---- recurrent layers

struct CellRow {
  const char* cell;
  const char* type;
  std::vector<size_t> order;  // torch's gates in ONNX's order
};
const CellRow kCells[] = {{"lstm", "LSTM", {0, 3, 1, 2}},
                          {"gru", "GRU", {1, 0, 2}},
                          {"tanh", "RNN", {0}},
                          {"relu", "RNN", {0}}};

// Reorders the parts of a tensor's first dimension, one for each gate, to ONNX's order.
std::string reordered(OnnxSteps& s, const std::string& name, const CellRow& row, int64_t size) {
  const size_t gates = row.order.size();
  if (gates == 1) return name;
  const std::vector<int64_t> sizes(gates, size / static_cast<int64_t>(gates));
  const Names parts = s.ops("Split", gates, {name, s.ints(sizes)}, {{"axis", int64_t{0}}});
  Names ordered;
  for (size_t gate : row.order) ordered.push_back(parts[gate]);
  return s.concat(ordered, 0);
}

Tensor identity(int64_t size) {
  Tensor matrix = Tensor::zeros(DType::kFloat32, {size, size});
  for (int64_t i = 0; i < size; ++i) matrix.data<float>()[i * size + i] = 1;
  return matrix;
}

// ONNX's layers include the product with the input. Uses the linear op before this one or, if
// something else makes the gates, a product with the identity.
void write_recurrent(OnnxSteps& s) {
  const std::string cell = s.source.get(attr::kCell);
  const CellRow* row = kCells;
  while (cell != row->cell) ++row;
  if (s.has(5)) return s.refuse("with a projection");
  const int64_t rows = s.in(1).shape[0], width = s.in(1).shape[1];
  std::string x = s.x(0), w, bias;
  if (const ProgramOp* linear = s.producer(0, "linear")) {
    OnnxSteps front(s.writer, *linear);
    x = front.x(0);
    w = front.x(1);
    bias = front.x(2);
  } else {
    w = s.constant("identity", identity(rows));
  }
  const auto as_onnx = [&](const std::string& name) {
    return s.unsqueeze(reordered(s, name, *row, rows), {0});
  };
  Names inputs = {x, as_onnx(w), as_onnx(s.x(1))};
  if (bias.empty() && !s.has(2)) {
    inputs.push_back("");
  } else {
    const auto or_zeros = [&](const std::string& name) {
      return as_onnx(name.empty() ? s.filled(0, {rows}, DType::kFloat32) : name);
    };
    const std::string first = or_zeros(bias), second = or_zeros(s.x(2));
    inputs.push_back(s.concat({first, second}, 1));
  }
  inputs.push_back("");  // lengths of sequences: full
  inputs.push_back(s.unsqueeze(s.x(3), {0}));
  const bool is_lstm = cell == "lstm";
  if (is_lstm) inputs.push_back(s.unsqueeze(s.x(4), {0}));
  OnnxAttributes attributes = {{"hidden_size", width}};
  if (s.source.get(attr::kReverse)) attributes.emplace_back("direction", std::string("reverse"));
  if (cell == "gru") attributes.emplace_back("linear_before_reset", int64_t{1});
  if (cell == "relu") attributes.emplace_back("activations", Names{"Relu"});
  const Names results = s.ops(row->type, is_lstm ? 3 : 1, inputs, std::move(attributes));
  if (is_lstm) s.give(1, s.squeeze(results[2], {0}));
  s.give(s.squeeze(results[0], {1}));
}

constexpr OnnxRow kProductRows[] = {
    {"conv", write_conv},     {"conv_transpose", write_conv}, {"linear", write_linear},
    {"matmul", write_matmul}, {"recurrent", write_recurrent}, {"attention", write_attention},
};

}  // namespace

std::span<const OnnxRow> product_onnx_rows() { return kProductRows; }

}  // namespace octet
