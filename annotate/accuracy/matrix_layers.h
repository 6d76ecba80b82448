// The layers of an observed graph that multiply by a constant, quantized weight: what passes over
// weights and biases work on.
//
//   x -> observe -> linear(x', w', b) -> y          w -> observe -> w'
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/observed/observed_graph.h"
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
  Node* weight_point = nullptr;  // the observer node in front of the op's weight
  // what the point observes: a parameter or buffer, or a pure op on some
  Value* weight = nullptr;
  int weight_group = -1;         // of the weight's observer, index into ObservedGraph::observers
  int output_axis = 0;           // of the weight: the dimension of output channels
  int64_t groups = 1;            // of convolutions
  Value* input = nullptr;        // as the op reads it: behind its observer node when it has one
  Value* float_input = nullptr;  // in front of that
  // [out], constant, in front of its observer nodes; null: the op has none
  Value* bias = nullptr;
  // the bias is a parameter or buffer that this op alone uses: set_bias() may be called
  bool owns_bias = false;

  const std::string& name() const { return op->name(); }
};

// Where the operands of an op that multiplies by a weight stand among its arguments.
struct LayerOperands {
  const char* target;
  MatrixLayer::Kind kind;
  const char* input;
  const char* weight;
  const char* bias;  // null: the op has none
};
const LayerOperands* find_operands(const Node& node);  // null: another op

// In graph order. Not among them, each with an entry in the report under `stage`: weights that are
// used elsewhere too (behind their point), weights behind more than one point, biases that are no
// constant [out], and layers within bodies of control flow. Ops without an observed constant weight
// are not mentioned.
std::vector<MatrixLayer> find_matrix_layers(const ObservedGraph& observed, const std::string& stage,
                                            Report& report);

// The weight as it stands now. A constant's own bytes: clone before writing.
at::Tensor weight_of(const MatrixLayer& layer);
// A new weight of the same shape and dtype; what else reads the old one still does. The weight's
// observer keeps its state.
void set_weight(MatrixLayer& layer, const at::Tensor& weight);

// The bias, undefined when there is none; and a new one of the same shape and dtype. REQUIRES:
// owns_bias.
at::Tensor bias_of(const MatrixLayer& layer);
void set_bias(MatrixLayer& layer, const at::Tensor& bias);

// The weight as a matrix for each group: [groups, out / groups, columns]. Columns: input channels
// of the group by kernel positions, row-major. And back.
at::Tensor to_matrices(const MatrixLayer& layer, const at::Tensor& weight);
at::Tensor from_matrices(const MatrixLayer& layer, const at::Tensor& matrices);

// What each output position multiplies with those matrices, as rows: [groups, rows, columns] of an
// input that the op takes (convolutions unfold it). And the op's outputs in the same order of rows:
// [groups, rows, out / groups].
at::Tensor input_rows(const MatrixLayer& layer, const at::Tensor& input);
at::Tensor output_rows(const MatrixLayer& layer, const at::Tensor& output);

}  // namespace octet
