// Chooses the ranges of activations by their effect on the outputs of the whole program. The range
// with the least error of a single tensor is often not the best one: clipping may cost nothing in
// one tensor and everything in another.
#pragma once

#include "annotate/calibrate/calibrate.h"
#include "annotate/observed/observed_graph.h"
#include "annotate/observed/peers.h"
#include "core/base/report.h"

namespace octet {

struct RangeOptions {
  // batches to try ranges with; their inputs, outputs and intermediate values are held; >= 1
  size_t batches = 8;
  // factors of the current range to try, besides the range of all values seen; when both ends are
  // free, the smallest factor is also tried for each end alone; > 0
  std::vector<double> factors = {1.15, 0.9, 0.8, 0.65};
  // which ops: those that produce the observed values, or read them when they are inputs
  NodeFilter applies = {};
  // processes that try the same ranges on other batches (round-robin); `batches` counts those of
  // all; null: none
  Peers* peers = nullptr;
  std::function<void(size_t done, size_t total)> progress = {};  // after each range
};

struct RangeTuning {
  size_t ranges = 0;   // tried
  size_t changed = 0;  // of these
  // energy of the outputs over their squared error on these batches, with weights rounded to
  // nearest
  double before_db = 0;
  double after_db = 0;
};

// Tunes one range after the other, in graph order: the factor with the least squared error of the
// float outputs, relative to their energy, wins, and a min_max observer with that range replaces
// the current one. Only ranges of static integer specs with one scale are tried; fixed and derived
// qparams follow their sources.
//
// REQUIRES: `observed` is calibrated. Deterministic. Adds one note to the report. A program that
// writes into its buffers is left unchanged. Throws Error("ranges", ...) for bad options and
// without data.
RangeTuning tune_ranges(ObservedGraph& observed, const BatchSource& data, Report& report,
                        const RangeOptions& options = {});

}  // namespace octet
