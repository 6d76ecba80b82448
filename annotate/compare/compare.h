// PyTorch's numeric suite for PT2E: how far each op of a quantized program is from the float
// program's, by its weights, by its outputs, and by itself on the float program's tensors.
//
// Three errors of an op:
//   accumulated   both programs run whole: what came in is wrong already
//   isolated      the op and the rounding behind it, on the reference's tensors (its shadow)
//   before        of the isolated one: what was there in front of that rounding, so weights and
//                 parameters that are chosen per run
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "annotate/calibrate/calibrate.h"
#include "annotate/compare/metric.h"
#include "annotate/compare/shadow_graph.h"
#include "annotate/compare/weights.h"
#include "core/graph/graph.h"

namespace octet {

// Counts over [least, greatest] in bins of one width; what lies outside is in the first and last.
struct Histogram {
  double least = 0, greatest = 0;
  std::vector<int64_t> counts = {};  // empty: none was asked for
};

struct OpComparison {
  std::string name;                  // of the subject's value: its node's name; of bodies a path
  std::vector<std::string> members;  // the reference's nodes that it stands for; empty for inputs
  std::string target;                // "" for inputs
  std::string module, module_type;   // innermost; may be empty
  std::string stack_trace;           // where the model's source calls it; may be empty
  ErrorStats accumulated, isolated, before;
  std::optional<OutputRounding> rounding = {};  // of its output
  // Of the reference's elements: share outside of what the rounding can hold, and what they alone
  // cost, in the terms of ErrorStats::noise.
  double clipped_share = 0, clipped_noise = 0;
  // Largest absolute value of each channel of the reference (dimension 1 of [N, C, H, W, ...], else
  // the last one), channel factors applied; empty for tensors without dimension.
  std::vector<float> channel_peaks = {};
  std::optional<double> metric = {};  // mean over the batches, accumulated
  Histogram histogram = {};           // of the reference, channel factors applied

  // The largest isolated error in steps of the rounding; nothing without rounding.
  std::optional<double> steps() const;
};

struct CompareOptions {
  Metric metric = {};
  bool histograms = false;
  // The ops inside of cond, while_loop, scan and map, too (bodies.h). Both programs run once more
  // where there are such.
  bool bodies = false;
  ProgressCallback progress = {};
};

struct Comparison {
  std::vector<OpComparison> ops;    // in the subject's order, those of bodies at the end
  std::vector<std::string> lonely;  // ops of the subject without twin
  // of ops in bodies, named as they are; of the others compare_weights() tells
  std::vector<WeightComparison> body_weights;
  ErrorStats outputs;  // over the programs' float outputs
  // mean over the batches of the mean over the float outputs; NaN where it says nothing
  std::optional<double> metric = {};
  size_t batches = 0;
};

// Both programs whole, without shadows. The data is streamed: of each program only what is alive at
// one op. Throws Error("compare", ...) when the programs do not belong together (twins.h), without
// data, and what an op throws.
Comparison compare_outputs(const Graph& reference, const Graph& subject, const BatchSource& data,
                           const CompareOptions& options = {});

// The same with the shadows: one more run of the subject.
Comparison shadow(const Graph& reference, const Graph& subject, const BatchSource& data,
                  const CompareOptions& options = {});

}  // namespace octet
