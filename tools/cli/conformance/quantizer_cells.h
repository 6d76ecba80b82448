// Proves a quantizer: annotates, quantizes, lowers and runs small programs, and checks each step.
#pragma once

#include <functional>
#include <vector>

#include "annotate/conformance/checked_quantizer.h"
#include "backends/conformance/conformance.h"
#include "tools/cli/conformance/graph_cells.h"

namespace octet::conformance {

struct QuantizerOfCells {
  MakeQuantizer make;
  MakeQuantizer make_twin = {};  // must annotate as `make` does; empty: none
};

// Runs the cells as run_conformance() runs those of a backend: `octet conformance --quantizer`.
// Reports name the quantizer by options.quantizer. models: a folder whose .pt2 files are cells,
// too; "": none. Throws Error if a backend is unknown, or as chosen() does.
std::vector<CellResult> run_quantizer_conformance(
    const QuantizerOfCells& quantizer, const ConformanceOptions& options,
    const std::string& models = "", const std::function<void(const CellResult&)>& done = {});

// Runs one cell in this process. Checks in order: those of CheckedQuantizer; that prepare,
// calibrate, convert and lower succeed; "taken": the backend runs each annotated op as its specs
// ask; "close": the results are near those of the float program. Throws nothing.
CellResult run_graph_cell(const GraphCell& cell, const QuantizerOfCells& quantizer,
                          const ConformanceOptions& options);

// The chosen cells. The jobs refer to `options`, which must outlive them.
std::vector<Job> quantizer_jobs(const QuantizerOfCells& quantizer,
                                const ConformanceOptions& options, const std::string& models = "");

}  // namespace octet::conformance
