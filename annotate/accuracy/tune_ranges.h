// Chooses the ranges of activations by what they do to the outputs of the whole program. A tensor's
// own least error is not that of the result: one range that cuts off values may cost nothing,
// another one everything.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "annotate/calibrate/calibrate.h"
#include "annotate/observed/observed_graph.h"
#include "annotate/observed/peers.h"
#include "core/base/report.h"

namespace octet {

struct RangeOptions {
  // of the data that are tried with: that many inputs, outputs and values between are held; >= 1
  size_t batches = 8;
  // Of the range so far, tried beside the range of all values seen; where both ends are free, the
  // least is tried for each end alone too. > 0
  std::vector<double> factors = {1.15, 0.9, 0.8, 0.65};
  // of the ops that make the observed values, or read them when they are inputs
  NodeFilter applies = {};
  // others that try the same ranges on other batches: `data` has every so-manieth, and `batches` is
  // the number of all; null: none
  Peers* peers = nullptr;
  std::function<void(size_t done, size_t total)> progress = {};  // after each range
};

struct RangeTuning {
  size_t ranges = 0;   // that were tried
  size_t changed = 0;  // of them
  // outputs' energy to squared error on the data tried with, all weights rounded to the nearest
  double before_db = 0;
  double after_db = 0;
};

// One range after the other, in graph order: the factor that gives the least squared error of the
// float outputs, relative to their energy, replaces the observer by min_max with that range. Ranges
// of static integer specs with one scale are tried; fixed and derived ones follow their sources.
// REQUIRES: observed is calibrated. Deterministic. One note in the report. A program that writes
// into its buffers stays as it is. Throws Error("ranges", ...) for bad options and without data.
RangeTuning tune_ranges(ObservedGraph& observed, const BatchSource& data, Report& report,
                        const RangeOptions& options = {});

}  // namespace octet
