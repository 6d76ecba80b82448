// Visits the matrix layers of a calibrated graph one after the other with sample data, so that a
// pass can change each layer and the next one sees the effect. Two programs run side by side over
// all samples: the float program, and the quantized program, with rounding where convert will put
// quantize and dequantize ops. Each op runs once per sample, however many layers there are.
#pragma once

#include <ATen/core/Tensor.h>

#include "annotate/accuracy/matrix_layers.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/observed/peers.h"

namespace octet {

// One sample at one layer. For linears, rows that a padding mask excludes are left out
// (padding_mask.h).
struct LayerSample {
  at::Tensor quantized_input;  // as the op reads it in the quantized program, dequantized
  at::Tensor float_output;  // what the op gives in the float program as it was when the walk began
};

struct WalkOptions {
  // limit for samples and values between layers; further batches are not used
  size_t max_bytes = size_t{2} << 30;
  // the float program when earlier passes have changed weights or biases; null: `observed` itself
  const Graph* reference = nullptr;
  NodeFilter applies = {};  // for passes: which layers
  // for passes: processes that walk over other batches at the same time; sums include theirs; null:
  // none
  Peers* peers = nullptr;
  // for passes: called after each layer
  std::function<void(size_t done, size_t total, const std::string& layer)> progress = {};
};

class LayerWalk {
 public:
  // Reads batches until `data` ends or max_bytes is reached (which is known after the first batch
  // has run). `layers`: any subset of find_matrix_layers(observed), in graph order. Their weights
  // are rounded by their observers until the walk changes them. Throws Error(stage, ...) when there
  // is no batch or the program writes into its buffers, and as convert does when an observer saw no
  // data.
  LayerWalk(ObservedGraph& observed, std::vector<MatrixLayer> layers, const BatchSource& data,
            const std::string& stage, const WalkOptions& options = {});
  ~LayerWalk();
  LayerWalk(const LayerWalk&) = delete;
  LayerWalk& operator=(const LayerWalk&) = delete;

  // Runs both programs up to the next layer; false after the last one. The current layer's weight
  // and bias may be changed until the next call.
  bool next();
  size_t index() const;  // of the current layer, from 0
  MatrixLayer& layer();
  const std::vector<LayerSample>& samples() const;  // one per batch
  // Change both the observed graph and the quantized run.
  void change_weight(const at::Tensor& weight);
  void change_bias(const at::Tensor& bias);

  size_t batches() const;
  bool left_data_out() const;  // max_bytes did not suffice for all batches

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Second moments of a layer's data, summed over all samples. They give the squared error of any
// weight matrix V without running the layer again:
//
//   error(V) = sum over rows of |y - x V^T|^2 = <V H, V> - 2 <V, C> + e
//       x: quantized input, y: float output without bias

// The weight of each row of a linear in the sums: lower, the more energy its output has compared
// with other rows. Transformers usually have a few tokens with outputs tens of times as large as
// the others, and the ops that follow normalize each token by itself. outputs: [G, rows, R], float;
// returns [G, rows, 1], about 1 for ordinary rows. Convolutions: ones.
at::Tensor row_weights(const MatrixLayer& layer, const at::Tensor& outputs);

// Means over rows, weighted by row_weights(). All tensors are f64 with G groups, R outputs and K
// columns per group, as to_matrices() lays them out.
struct LayerMeans {
  at::Tensor input_mean;   // [G, K], over rows
  at::Tensor output_mean;  // [G, R]
  double rows = 0;         // sum of the rows' weights in each group

  // The bias [G, R] with the least error for V: the mean of y - x V^T. matrices: [G, R, K] f64.
  at::Tensor best_bias(const at::Tensor& matrices) const;
};

struct LayerStatistics : LayerMeans {
  at::Tensor hessian;  // H = sum x^T x [G, K, K]
  at::Tensor cross;    // C = sum y^T x [G, R, K]
  double energy = 0;   // e = sum |y|^2

  // The error of V = matrices, at least 0. matrices: [G, R, K] f64.
  double error(const at::Tensor& matrices) const;
  // The statistics after subtracting the means of inputs and outputs: the error that remains with
  // the best bias.
  LayerStatistics centered() const;
  // The error of V when `bias` [G, R] is added to its outputs.
  double error(const at::Tensor& matrices, const at::Tensor& bias) const;
};

// The statistics of both sets of samples together.
LayerStatistics sum_of(const LayerStatistics& one, const LayerStatistics& other);

// bias: subtracted from the outputs first; undefined: none. peers: processes whose samples are
// included; with peers there may be no sample here. Throws Error(stage, "%op", ...) when the data
// holds NaN or infinities.
LayerStatistics collect_statistics(const MatrixLayer& layer,
                                   const std::vector<LayerSample>& samples, const at::Tensor& bias,
                                   const std::string& stage, Peers* peers = nullptr);

}  // namespace octet
