// Proves a quantizer: annotates, quantizes, lowers and runs small programs, and checks each step.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "annotate/conformance/checked_quantizer.h"
#include "backends/conformance/conformance.h"

namespace octet::conformance {

// A cell of `octet conformance --quantizer`: a small float program, as text.
struct GraphCell {
  std::string name;                                     // "conv/odd"; unique
  std::string kind;                                     // of its layers; "file"
  std::function<std::string(uint32_t seed)> text = {};  // of the graph
  std::string file = {};                                // the .pt2 that has the graph instead
};

// Single layers, pairs that fuse, shapes, whole networks and, last, random ones, which depend on
// the seed.
std::vector<GraphCell> graph_cells();

void add_layers(std::vector<GraphCell>& cells);  // the first of them

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
