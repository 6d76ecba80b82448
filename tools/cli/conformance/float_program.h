// The program of a cell, with weights and data.
#pragma once

#include <vector>

#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"
#include "tools/cli/conformance/graph_cells.h"

namespace octet::conformance {

struct FloatProgram {
  Graph graph;  // with the types of all values
  std::vector<std::vector<c10::IValue>> batches;
};

// Parses the graph of a cell and fills its constants with random numbers like those of a trained
// network: products keep the magnitude of their inputs. Integers in the data are below 10. Tries
// other numbers if a tensor vanishes, as after a relu of negative numbers: no scale suits it. The
// same seed gives the same bits.
//
// The program of a file keeps its constants.
FloatProgram float_program(const GraphCell& cell, uint32_t seed);

}  // namespace octet::conformance
