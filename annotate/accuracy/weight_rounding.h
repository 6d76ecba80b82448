// Rounding of weights by what it does to the layers' outputs on calibration data, instead of each
// weight to the nearest. Layer by layer, in graph order; each sees the inputs that the rounded
// layers before it give, and is to give the output of the float program all the same.
//
// The scales stay those of the weights' observers. The weights become values that these scales can
// say, so that convert's own rounding leaves them as they are. How a layer is rounded is a
// RoundingMethod: gptq.h, adaround.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "annotate/accuracy/layer_walk.h"
#include "annotate/accuracy/weight_grid.h"

namespace octet {

// One layer. G groups, R outputs and K columns a group; all tensors f64 [G, R, K] but the Hessian.
struct RoundingProblem {
  at::Tensor weight;
  at::Tensor scale;
  at::Tensor zero_point;
  int64_t quant_min = 0;
  int64_t quant_max = 0;
  // To be made small: <V H, V> - 2 <V, C>, V = scale * (q - zero_point). H is positive definite:
  // damping holds V near the weight where the data says little.
  at::Tensor hessian;  // H [G, K, K]
  at::Tensor cross;    // C
  at::Tensor nearest;  // q when each weight is rounded to the nearest
};

// The q of each weight, whole numbers in [quant_min, quant_max] as f64 [G, R, K].
using RoundingMethod = std::function<at::Tensor(const RoundingProblem&)>;

// How a layer's problem is set; each of RoundingOptions::settings is tried.
struct RoundingSetting {
  // of the mean of the Hessian's diagonal, added to it: the higher, the nearer the weights stay; >
  // 0
  double damping = 0.01;
  // 1: the layer makes up for the noise in its input too; 0: it gives what the float weight gives
  // for that input; in [0, 1]
  double follow = 0;
};

struct RoundingOptions {
  std::vector<RoundingSetting> settings = {{0.01, 0}, {0.3, 0}};  // at least one
  // of the batches (of one batch: of its first dimension): what decides between the settings and
  // the nearest rounding; in (0, 1)
  double held_out = 0.25;
  bool correct_bias = true;  // try a new bias too, where a layer has one of its own
  size_t max_bytes = WalkOptions().max_bytes;
  // the float program where passes before have changed weights or biases; null: as the observed
  // graph stands
  const Graph* reference = nullptr;
  NodeFilter applies = {};  // of the layers
  // others that walk on other batches at the same time: sums are over all; null: none
  Peers* peers = nullptr;
  // after each layer
  std::function<void(size_t done, size_t total, const std::string& layer)> progress = {};
};

struct LayerRounding {
  std::string layer;
  // output's energy to squared error on the held-out data, with the nearest rounding
  double before_db = 0;
  double after_db = 0;        // with the rounding chosen (and the bias), found without that data
  bool is_better = false;     // the rounding is another than the nearest
  RoundingSetting setting{};  // if so
  bool changes_bias = false;
};

// Rounds the weights of all matrix layers that have a grid. REQUIRES: observed is calibrated. Part
// of the data is held out: what is best there is used, and found anew with all data. A layer keeps
// the nearest rounding, and its bias, where nothing was better on the data held out. One entry in
// the report for each layer left out, under `stage`, and a note for each rounded one. When the
// program cannot be run stepwise nothing changes, and a note says why. Throws Error(stage, ...) for
// bad options and data as LayerWalk and collect_statistics do.
std::vector<LayerRounding> round_weights(ObservedGraph& observed, const BatchSource& data,
                                         const RoundingMethod& method,
                                         const RoundingOptions& options, const std::string& stage,
                                         Report& report);

// Second-order rounding: the method of optimal brain surgeon for quantization (GPTQ). Columns are
// rounded one after the other, those with the most energy first; what each column's rounding does
// to the output is made up for by the columns that are still free, as the inverse Hessian says.
// Then single weights move by a step as long as that lowers the error.

struct SecondOrderOptions {
  // rounded before the error reaches the other columns: speed only; >= 1
  int64_t block_columns = 128;
  int passes = 20;  // over all columns when single weights move; 0: none
};

// Deterministic. Throws Error("second-order rounding", option, ...) for bad options.
RoundingMethod second_order_method(const SecondOrderOptions& options = {});

// round_weights() by that method.
std::vector<LayerRounding> round_second_order(ObservedGraph& observed, const BatchSource& data,
                                              Report& report, const RoundingOptions& options = {},
                                              const SecondOrderOptions& method = {});

// Adaptive rounding (AdaRound): each weight goes to the grid point below or above it. Which one is
// a number between 0 and 1 for each weight, found by gradient descent on the output's squared error
// together with a penalty that drives the numbers to 0 or 1 and grows sharper with time.

struct AdaptiveOptions {
  int iterations = 1000;        // steps of gradient descent for each layer; >= 1
  double learning_rate = 0.02;  // of Adam; > 0
  // weight of the penalty; the mean error of the nearest rounding counts as 1; > 0
  double regularization = 0.1;
  double warm_up = 0.2;  // share of the iterations without penalty; in [0, 1)
};

// Deterministic: there is no random start and no sampling, as the error is known for all data at
// once. Throws Error("adaptive rounding", option, ...) for bad options.
RoundingMethod adaptive_method(const AdaptiveOptions& options = {});

// round_weights() by that method.
std::vector<LayerRounding> round_adaptive(ObservedGraph& observed, const BatchSource& data,
                                          Report& report, const RoundingOptions& options = {},
                                          const AdaptiveOptions& method = {});

}  // namespace octet
