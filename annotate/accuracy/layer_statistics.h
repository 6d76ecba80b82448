// What rounding must know about the data of a matrix layer, summed over all samples: second
// moments, which give the squared error of any weight without running the layer again.
//
//   error(V) = sum over rows of |y - x V^T|^2 = <V H, V> - 2 <V, C> + e
//       x: quantized input, y: float output without bias
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/accuracy/layer_walk.h"
#include "annotate/accuracy/matrix_layers.h"
#include "annotate/observed/peers.h"

namespace octet {

// How much each row of a linear counts: less the more energy its output has beside the others. A
// few tokens with outputs tens of times as large are usual in transformers, and what follows
// normalizes each token by itself. outputs: [G, rows, R], float; returns [G, rows, 1], about 1 for
// usual rows. Convolutions: ones.
at::Tensor row_weights(const MatrixLayer& layer, const at::Tensor& outputs);

// Rows count as row_weights() says. All f64; G groups, R outputs and K columns a group, as
// to_matrices() has them.
struct LayerMeans {
  at::Tensor input_mean;   // [G, K], over rows
  at::Tensor output_mean;  // [G, R]
  double rows = 0;         // sum of their weights in each group

  // The bias [G, R] that is best for V: the mean of y - x V^T. matrices: [G, R, K] f64.
  at::Tensor best_bias(const at::Tensor& matrices) const;
};

struct LayerStatistics : LayerMeans {
  at::Tensor hessian;  // H = sum x^T x [G, K, K]
  at::Tensor cross;    // C = sum y^T x [G, R, K]
  double energy = 0;   // e = sum |y|^2

  // <V H, V> - 2 <V, C> + e, not below 0. matrices: [G, R, K] f64.
  double error(const at::Tensor& matrices) const;
  // Of inputs and outputs with their means taken off: what is left when the bias is chosen best.
  LayerStatistics centered() const;
  // What <V H, V> - 2 <V, C> + e becomes when `bias` [G, R] is added to the outputs of V.
  double error(const at::Tensor& matrices, const at::Tensor& bias) const;
};

// Of both data together.
LayerStatistics sum_of(const LayerStatistics& one, const LayerStatistics& other);

// bias: what to take off the outputs, undefined for none. peers: those whose samples count too;
// with them there may be no sample here. Throws Error(stage, "%op", ...) when the data holds NaN or
// infinities.
LayerStatistics collect_statistics(const MatrixLayer& layer,
                                   const std::vector<LayerSample>& samples, const at::Tensor& bias,
                                   const std::string& stage, Peers* peers = nullptr);

}  // namespace octet
