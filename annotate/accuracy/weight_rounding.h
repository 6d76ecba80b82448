// Rounds weights so that the layers' outputs on calibration data have the least error, instead of
// rounding each weight to nearest. Why that pays, in one dimension: a layer y = w1 x1 + w2 x2 with
// scale 1, w = (0.4, 0.4) and inputs that are always equal gives 0.8 x. Rounding to nearest gives w
// = (0, 0) and y = 0; rounding one of the two up gives y = x, a quarter of the error.
//
// Layers are visited in graph order. Each one sees the inputs that the rounded layers before it
// produce, and is fitted to the output of the float program. The scales stay those of the weights'
// observers, and the new weights lie on their grid, so convert's own rounding leaves them
// unchanged. How one layer is rounded is a RoundingMethod: second-order (GPTQ) or adaptive
// (AdaRound).
#pragma once

#include "annotate/accuracy/layer_walk.h"
#include "annotate/accuracy/matrix_layers.h"

namespace octet {

// The rounding of one layer as an optimization problem: choose q, with V = scale * (q -
// zero_point), to minimize <V H, V> - 2 <V, C>. G groups, R outputs and K columns per group; all
// tensors are f64 [G, R, K] except the Hessian.
struct RoundingProblem {
  at::Tensor weight;
  at::Tensor scale;
  at::Tensor zero_point;
  int64_t quant_min = 0;
  int64_t quant_max = 0;
  // H is positive definite: damping keeps V near the weight where the data says little.
  at::Tensor hessian;  // H [G, K, K]
  at::Tensor cross;    // C
  at::Tensor nearest;  // q when each weight is rounded to the nearest
};

// Returns the q of each weight, whole numbers in [quant_min, quant_max] as f64 [G, R, K].
using RoundingMethod = std::function<at::Tensor(const RoundingProblem&)>;

// How the problem of a layer is set up. Every entry of RoundingOptions::settings is tried.
struct RoundingSetting {
  // share of the mean of the Hessian's diagonal that is added to the diagonal: the higher, the
  // closer the weights stay to the originals; > 0
  double damping = 0.01;
  // 1: the layer also compensates the error of its input; 0: it reproduces what the float weight
  // gives for that input; in [0, 1]
  double follow = 0;
};

struct RoundingOptions {
  std::vector<RoundingSetting> settings = {{0.01, 0}, {0.3, 0}};  // at least one
  // share of the batches (or of the first dimension of a single batch) on which the settings and
  // rounding to nearest are compared; in (0, 1)
  double held_out = 0.25;
  bool correct_bias = true;  // also try a new bias where a layer has one
  WalkOptions walk = {};
};

struct LayerRounding {
  std::string layer;
  // energy of the output over its squared error on held-out data, when rounded to nearest
  double before_db = 0;
  double after_db = 0;        // with the chosen rounding and bias, found without that data
  bool is_better = false;     // the result differs from rounding to nearest
  RoundingSetting setting{};  // of that result
  bool changes_bias = false;
};

// Rounds the weights of all matrix layers that have a grid (WeightGrid). Part of the data is
// held out: the setting that is best on it wins and is fitted again with all data. A layer keeps
// rounding to nearest, and its bias, when nothing is better on the held-out data.
//
// REQUIRES: `observed` is calibrated. Adds an entry under `stage` to the report for each layer left
// out, and a note for each rounded one. A program that cannot be run stepwise is left unchanged,
// with a note that says why. Throws Error(stage, ...) for bad options and data, as LayerWalk and
// collect_statistics() do.
std::vector<LayerRounding> round_weights(ObservedGraph& observed, const BatchSource& data,
                                         const RoundingMethod& method,
                                         const RoundingOptions& options, const std::string& stage,
                                         Report& report);

// Second-order rounding (GPTQ: Frantar et al. 2022; optimal brain surgeon: Hassibi and Stork 1993).
// Columns are rounded one after the other, those with the most energy first. After each column the
// columns that are still free are adjusted, by the inverse Hessian, to compensate its error in the
// output. At the end single weights move by one step while that lowers the error.

struct SecondOrderOptions {
  // columns rounded before their error reaches the rest: affects speed only; >= 1
  int64_t block_columns = 128;
  int passes = 20;  // passes of single-weight moves over all columns; 0: none
};

// Deterministic. Throws Error("second-order rounding", option, ...) for bad options.
RoundingMethod second_order_method(const SecondOrderOptions& options = {});

// round_weights() with that method.
std::vector<LayerRounding> round_second_order(ObservedGraph& observed, const BatchSource& data,
                                              Report& report, const RoundingOptions& options = {},
                                              const SecondOrderOptions& method = {});

// Adaptive rounding (AdaRound: Nagel et al. 2020): each weight is rounded down or up. The choice is
// a number between 0 and 1 per weight, learned by gradient descent on the squared error of the
// layer's output plus a penalty that pushes the numbers toward 0 or 1 and grows sharper over time.

struct AdaptiveOptions {
  int iterations = 1000;        // steps of gradient descent for each layer; >= 1
  double learning_rate = 0.02;  // of Adam; > 0
  // weight of the penalty, where the mean error of rounding to nearest counts as 1; > 0
  double regularization = 0.1;
  double warm_up = 0.2;  // share of the iterations before the penalty starts; in [0, 1)
};

// Deterministic: no random start and no sampling, as the error is known for all data at once.
// Throws Error("adaptive rounding", option, ...) for bad options.
RoundingMethod adaptive_method(const AdaptiveOptions& options = {});

// round_weights() with that method.
std::vector<LayerRounding> round_adaptive(ObservedGraph& observed, const BatchSource& data,
                                          Report& report, const RoundingOptions& options = {},
                                          const AdaptiveOptions& method = {});

}  // namespace octet
