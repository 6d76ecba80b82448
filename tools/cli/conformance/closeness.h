// Compares what two ways to run a program give.
#pragma once

#include <functional>
#include <vector>

#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace octet::conformance {

using Batches = std::vector<std::vector<c10::IValue>>;
using RunBatch = std::function<std::vector<c10::IValue>(const std::vector<c10::IValue>&)>;

// Runs the graph with LibTorch. The graph must outlive the result.
RunBatch interpreted(const Graph& graph);
// The outputs of each batch. `run` gets copies of the inputs.
Batches run_all(const Batches& batches, const RunBatch& run);

// The signal-to-noise ratio in dB of the worst floating-point output, over all batches; infinite
// without one. Outputs that vanish on both sides do not count.
double least_sqnr(const Batches& want, const Batches& got);
// Throws Error("conformance", "close", ...) if that is below `least`. what: "the lowered outputs".
void check_close(const char* what, const Batches& want, const Batches& got, double least);

}  // namespace octet::conformance
