// Runs sample data through an observed graph.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

#include "annotate/observed/observed_graph.h"
#include "annotate/observed/peers.h"
#include "core/base/report.h"
#include "core/interpreter/interpreter.h"

namespace octet {

// The next batch (the graph's user inputs in order), or nothing when the data is used up.
using BatchSource = std::function<std::optional<std::vector<c10::IValue>>()>;
using ProgressCallback = std::function<void(size_t batches_done)>;

struct CalibrateOptions {
  ProgressCallback progress = {};
  // how to run ops that LibTorch does not know, by target
  std::map<std::string, Handler> handlers = {};
  // the tensors that recorded_values (recorded_parts.h) names, batch for batch
  BatchSource recorded = {};
  // the number that messages give the first batch, where these are a part of the data
  size_t first_batch = 0;
};

// Every batch is run and dropped again before the next is asked for. Constants are observed once
// where the result is the same. Returns the number of batches. Throws Error("calibrate", ...) when
// there is no batch, when a batch has NaN or infinities or the wrong number of inputs, and when an
// observed value is NaN; the message names the batch (from 0) and the input or node. Throws Error
// too for an op without kernel, and when recorded tensors are missing or nothing asks for them.
size_t calibrate(ObservedGraph& observed, const BatchSource& next_batch,
                 const ProgressCallback& progress = {});
size_t calibrate(ObservedGraph& observed, const BatchSource& next_batch,
                 const CalibrateOptions& options);
size_t calibrate(ObservedGraph& observed, const std::vector<std::vector<c10::IValue>>& batches);

// Observes what depends on constants alone, for programs that need no data (dynamic and weight-only
// quantization).
void observe_constants(ObservedGraph& observed);

// Whether an observer node of activations needs data that has not been seen.
bool needs_calibration(const ObservedGraph& observed);

// Removes the observer nodes of each body (a branch, a loop) that saw no data while others did;
// the report says so of each op in it. Returns the number of such bodies. When nothing at all has
// data nothing is removed.
int leave_unseen_bodies_float(ObservedGraph& observed, Report& report);

// Calibration by several processes, each on a run of the batches.

// The states of all parts of the data in order, as if one process had seen them: observers merge as
// Observer::merge says. "": of a part without data.
void merge_parts(ObservedGraph& observed, const std::vector<std::string>& states);

// Calibrates on the batches 0 .. total - 1 of `data` (all that it has), of which each process takes
// a run of nearly equal length; each ends with the observers of all. peers may be null. progress:
// batches of this process. Throws as calibrate().
void calibrate_together(ObservedGraph& observed, const BatchSource& data, size_t total,
                        Peers* peers, const ProgressCallback& progress = {});

}  // namespace octet
