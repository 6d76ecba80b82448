// Measures how far each op of a quantized program is from the float program, like PyTorch's numeric
// suite: by its weights, by its outputs, and by itself on the float program's tensors.
//
// Three errors of an op:
//   accumulated   both programs run as a whole, so the op's inputs differ already
//   isolated      the op and the rounding of its output, on the reference's tensors (its shadow)
//   before        the isolated error before that rounding: due to weights and to parameters that
//                 are chosen at run time
#pragma once

#include "annotate/calibrate/calibrate.h"
#include "annotate/compare/metric.h"
#include "annotate/compare/shadow_graph.h"
#include "core/graph/graph.h"

namespace octet {

// Compares the weights of a quantized program with those of the float program.

// The weight of one convolution, product with a constant, or embedding.
struct WeightComparison {
  std::string name;  // name of the subject's node
  std::string target = {}, module = {};
  int64_t axis = 0;  // the dimension of output channels (of an embedding: rows)
  ErrorStats error = {};
  // by channel, against the reference's weight folded and scaled like the subject's
  std::vector<double> sqnr_db = {};
  std::vector<float> least = {}, greatest = {};
};

// Compares the weights of the subject that are dequantized or converted from float16, in its order.
// The reference's weights are first changed as the subject's were: batch norms folded, channel
// factors of equalization and smoothing applied. Ops without a twin and weights of other shapes are
// left out. Throws what find_twins() throws.
std::vector<WeightComparison> compare_weights(const Graph& reference, const Graph& subject);

// Counts over [least, greatest] in bins of equal width; values outside are in the first and last
// bin.
struct Histogram {
  double least = 0, greatest = 0;
  std::vector<int64_t> counts = {};  // empty: not requested
};

// One element of an op's result, as both programs compute it. The subject's value is rounded.
struct ValueSample {
  std::vector<int64_t> index;  // in the result
  double reference = 0, subject = 0;
};

struct OpComparison {
  std::string name;                  // name of the subject's node; in bodies a path
  std::vector<std::string> members;  // the reference's nodes that it replaces; empty for inputs
  std::string target;                // "" for inputs
  std::string module, module_type;   // innermost; may be empty
  std::string stack_trace;           // where the model's source calls it; may be empty
  ErrorStats accumulated, isolated, before;
  std::optional<OutputRounding> rounding = {};  // rounding of its output
  // Share of the reference's elements outside of what the rounding can represent, and the error
  // that they alone cause, in units of ErrorStats::noise.
  double clipped_share = 0, clipped_noise = 0;
  // Largest absolute value of each channel of the reference (dimension 1 of [N, C, H, W, ...], else
  // the last one), with channel factors applied; empty for 0-dim tensors.
  std::vector<float> channel_peaks = {};
  std::optional<double> metric = {};  // of the accumulated error, mean over the batches
  Histogram histogram = {};           // of the reference, channel factors applied
  // Elements of the first batch, evenly spread over the result, and the one with the largest
  // accumulated error; channel factors applied; empty: not requested.
  std::vector<ValueSample> samples = {};

  // The largest isolated error in steps of the output's scale; nothing without rounding.
  std::optional<double> steps() const;
};

struct CompareOptions {
  Metric metric = {};
  bool values = false;  // collect histograms and samples
  // Also compare the ops inside of cond, while_loop, scan and map (comparer.h). Programs that have
  // such bodies run once more.
  bool bodies = false;
  ProgressCallback progress = {};
};

struct Comparison {
  std::vector<OpComparison> ops;    // in the subject's order, then those of bodies
  std::vector<std::string> lonely;  // ops of the subject without a twin
  // weights of ops in bodies, named like these ops; for the others see compare_weights()
  std::vector<WeightComparison> body_weights;
  ErrorStats outputs;  // over the programs' float outputs
  // mean over batches and float outputs; NaN when the metric says nothing
  std::optional<double> metric = {};
  size_t batches = 0;
};

// Runs both programs, with the shadows of the subject. The data is streamed, and only values that
// are still needed are held. Throws Error("compare", ...) when the programs do not belong together
// (find_twins) and without data, and what an op throws.
Comparison shadow(const Graph& reference, const Graph& subject, const BatchSource& data,
                  const CompareOptions& options = {});

}  // namespace octet
