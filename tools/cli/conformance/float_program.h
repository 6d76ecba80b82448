// The program of a cell, with weights and data.
#pragma once

#include <string>
#include <vector>

#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace octet::conformance {

struct FloatProgram {
  Graph graph;  // with the types of all values
  std::vector<std::vector<c10::IValue>> batches;
};

// Parses a graph and fills its constants with random numbers like those of a trained network:
// products keep the magnitude of their inputs. Integers in the data are below 10. The same seed
// gives the same bits.
FloatProgram float_program(const std::string& text, uint32_t seed);

}  // namespace octet::conformance
