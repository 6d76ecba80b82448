// Walks through the matrix layers of a calibrated graph with sample data, so that a pass can change
// one layer after the other and each sees what the changed ones before it give. Two runs go side by
// side over all samples: the float program, and the quantized one, that is with quantize and
// dequantize ops where convert would put them. Each op runs once per sample, whatever the number of
// layers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "annotate/accuracy/matrix_layers.h"
#include "annotate/calibrate/calibrate.h"
#include "annotate/observed/peers.h"

namespace octet {

// One sample at one layer; of linears, only rows that no padding mask leaves out (padding_mask.h).
struct LayerSample {
  at::Tensor quantized_input;  // as the op reads it in the quantized program, dequantized
  at::Tensor float_output;     // of the op in the float program as it was when the walk began
};

struct WalkOptions {
  // of samples and values between layers that are held at a time; batches beyond it are left out
  size_t max_bytes = size_t{2} << 30;
  // the float program where passes before have changed weights or biases; null: as the observed
  // graph stands
  const Graph* reference = nullptr;
};

class LayerWalk {
 public:
  // Reads batches until `data` ends or their memory is used up (known after the first batch has run
  // through). `layers` are those of find_matrix_layers() on `observed`, in graph order, any subset.
  // Wanted layers have their weights quantized by their observers until the walk changes them.
  // Throws Error(stage, ...) when there is no batch, when the program writes into its buffers, and
  // as convert does when an observer saw no data.
  LayerWalk(ObservedGraph& observed, std::vector<MatrixLayer> layers, const BatchSource& data,
            const std::string& stage, const WalkOptions& options = {});
  ~LayerWalk();
  LayerWalk(const LayerWalk&) = delete;
  LayerWalk& operator=(const LayerWalk&) = delete;

  // Runs both programs up to the next layer; false behind the last. A layer's weight or bias may be
  // changed until the next call.
  bool next();
  size_t index() const;  // of the layer, from 0
  MatrixLayer& layer();
  const std::vector<LayerSample>& samples() const;  // one for each batch
  // Change the observed graph and the quantized run.
  void change_weight(const at::Tensor& weight);
  void change_bias(const at::Tensor& bias);

  size_t batches() const;
  bool left_data_out() const;  // the memory did not do for all batches

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What rounding must know about the data of a matrix layer, summed over all samples: second
// moments, which give the squared error of any weight without running the layer again.
//
//   error(V) = sum over rows of |y - x V^T|^2 = <V H, V> - 2 <V, C> + e
//       x: quantized input, y: float output without bias

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
