// Calibrates: runs sample data through an observed graph so that its observers see ranges.
#pragma once

#include <ATen/core/ivalue.h>

#include "annotate/observed/observed_graph.h"
#include "annotate/observed/peers.h"
#include "core/base/report.h"
#include "core/interpreter/interpreter.h"

namespace octet {

// Returns the next batch (the graph's user inputs in order), or nothing at the end of the data.
using BatchSource = std::function<std::optional<std::vector<c10::IValue>>()>;
using ProgressCallback = std::function<void(size_t batches_done)>;

struct CalibrateOptions {
  ProgressCallback progress = {};
  // how to run ops that LibTorch does not know, by target
  std::map<std::string, Handler> handlers = {};
  // batch by batch, the tensors that recorded_values() lists (recorded_parts.h)
  BatchSource recorded = {};
  // number of the first batch in messages, when the data is a part of a larger set
  size_t first_batch = 0;
};

// Runs one batch at a time and drops it before asking for the next. Constants are observed once
// where that gives the same result. Returns the number of batches. Throws Error("calibrate", ...)
// when there is no batch, when a batch has NaN, infinities or the wrong number of inputs, and when
// an observed value is NaN; the message names the batch (from 0) and the input or node. Also throws
// Error for an op without a kernel, and when recorded tensors are missing or not needed.
size_t calibrate(ObservedGraph& observed, const BatchSource& next_batch,
                 const ProgressCallback& progress = {});
size_t calibrate(ObservedGraph& observed, const BatchSource& next_batch,
                 const CalibrateOptions& options);
size_t calibrate(ObservedGraph& observed, const std::vector<std::vector<c10::IValue>>& batches);

// Observes values that depend on constants alone, for programs that need no data (dynamic and
// weight-only quantization).
void observe_constants(ObservedGraph& observed);

// Whether an observer of activations needs data and has not seen any.
bool needs_calibration(const ObservedGraph& observed);

// Removes the observer nodes of each body (a branch, a loop) that saw no data while others did, and
// reports each op in it. Returns the number of such bodies. Does nothing when no observer has data.
int leave_unseen_bodies_float(ObservedGraph& observed, Report& report);

// Merges the observer states of consecutive parts of the data as if one process had seen them all
// (Observer::merge). "" is the state of a part without data.
void merge_parts(ObservedGraph& observed, const std::vector<std::string>& states);

// Calibrates in several processes: each takes a run of nearly equal length of the batches 0 ..
// total - 1 of `data`, and all end with the merged observers. peers may be null. progress counts
// this process's batches. Throws as calibrate() does.
void calibrate_together(ObservedGraph& observed, const BatchSource& data, size_t total,
                        Peers* peers, const ProgressCallback& progress = {});

}  // namespace octet
