// What training that is not over yet would give: the quantized program of a checkpoint.
#pragma once

#include <string>

#include "core/graph/graph.h"

namespace octet {

// The program that `octet qat` would write if it ended here. checkpoint: a file of its
// --checkpoint; model: the float .pt2 that is trained. Libraries that the run had must be loaded.
// Throws Error("compare", checkpoint, ...) when it is no checkpoint, damaged, or of another model,
// and what preparing the model throws.
Graph read_trained(const std::string& checkpoint, const std::string& model);

}  // namespace octet
