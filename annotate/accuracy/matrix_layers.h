// Finds the layers of an observed graph that multiply by a constant, quantized weight. Passes that
// change weights and biases work on these layers.
//
//   x -> observe -> linear(x', w', b) -> y          w -> observe -> w'
#pragma once

#include <ATen/core/Tensor.h>

#include "annotate/observed/observed_graph.h"
#include "annotate/observers/observer.h"
#include "core/base/report.h"

namespace octet {

struct MatrixLayer {
  enum class Kind {
    kLinear,       // linear: weight [out, in]
    kProduct,      // mm, addmm: weight [in, out]
    kConvolution,  // conv1d, conv2d, conv3d: weight [out, in / groups, kernel...]
  };
  Kind kind = Kind::kLinear;
  Node* op = nullptr;
  Node* weight_point = nullptr;  // the observer node before the op's weight
  // what the point observes: a parameter or buffer, or the result of a pure op on some
  Value* weight = nullptr;
  int weight_group = -1;   // group of the weight's observer: index into ObservedGraph::observers
  int output_axis = 0;     // the weight's dimension of output channels
  int64_t groups = 1;      // of a convolution
  Value* input = nullptr;  // what the op reads: the result of the observer node, if there is one
  Value* float_input = nullptr;  // the value that is observed
  // [out], constant, before its observer nodes; null: the op has none
  Value* bias = nullptr;
  // the bias is a parameter or buffer without other users, so set_bias() may be called
  bool owns_bias = false;

  const std::string& name() const { return op->name(); }
};

// Names of the arguments of an op that multiplies by a weight.
struct LayerOperands {
  const char* target;
  MatrixLayer::Kind kind;
  const char* input;
  const char* weight;
  const char* bias;  // null: the op has none
};
const LayerOperands* find_operands(const Node& node);  // null: another op

// Adds a detail for each layer that a pass leaves out, and one note. layers: "%name: reason" of
// each.
void report_left_out(const std::string& stage, const std::vector<std::string>& layers,
                     Report& report);

// In graph order. Left out and reported under `stage`: weights with several users or observer
// nodes, biases that are not a constant of shape [out], and layers within bodies of control flow.
// Ops without an observed constant weight are not mentioned.
std::vector<MatrixLayer> find_matrix_layers(const ObservedGraph& observed, const std::string& stage,
                                            Report& report);

// The current weight. Shares the constant's memory: clone before writing.
at::Tensor weight_of(const MatrixLayer& layer);
// Replaces the weight by one of the same shape and dtype. Other users keep the old one. The
// weight's observer keeps its state.
void set_weight(MatrixLayer& layer, const at::Tensor& weight);

// Reads the bias (undefined: there is none), or replaces it by one of the same shape and dtype.
// set_bias() REQUIRES: owns_bias.
at::Tensor bias_of(const MatrixLayer& layer);
void set_bias(MatrixLayer& layer, const at::Tensor& bias);

// Converts a weight to one matrix per group, [groups, out / groups, columns], and back. Columns:
// input channels of the group times kernel positions, row-major.
at::Tensor to_matrices(const MatrixLayer& layer, const at::Tensor& weight);
at::Tensor from_matrices(const MatrixLayer& layer, const at::Tensor& matrices);

// The rows that those matrices multiply, [groups, rows, columns] (convolutions unfold their input),
// and the op's outputs in the same order of rows, [groups, rows, out / groups].
at::Tensor input_rows(const MatrixLayer& layer, const at::Tensor& input);
at::Tensor output_rows(const MatrixLayer& layer, const at::Tensor& output);

// The grid of values that a quantized weight can take, element by element: scale * (q - zero point)
// for whole numbers q from quant_min to quant_max.
struct WeightGrid {
  at::Tensor scale;       // dtype (f32 or f64) and shape of the weight
  at::Tensor zero_point;  // same dtype and shape
  int64_t quant_min = 0;
  int64_t quant_max = 0;

  // the nearest q, half to even, clamped, as f64
  at::Tensor nearest(const at::Tensor& weight) const;
  // the dequantized value, in the dtype of `scale`
  at::Tensor values(const at::Tensor& q) const;
};

// Whether the weight's observer defines such a grid: it is static, its dtype and zero points are
// integers, and the weight is f32 or f64.
Verdict has_weight_grid(const Observer& observer, const at::Tensor& weight);
// REQUIRES: has_weight_grid(). Throws Error("convert", subject, ...) when the observer saw no data
// or a tensor of another shape.
WeightGrid weight_grid(const Observer& observer, const at::Tensor& weight,
                       const std::string& subject);

}  // namespace octet
