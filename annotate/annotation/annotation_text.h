// Annotations as text, for tests and for people.
#pragma once

#include <string>

#include "annotate/annotation/annotation.h"
#include "core/graph/graph.h"

namespace octet {

// "%x -> %conv" or "%x"; "%?" where the pointer is null. `prefix` stands before each name: the path
// of a body of control flow and a dot.
std::string to_text(const EdgeOrNode& key, const std::string& prefix = "");

// "int8 -128..127 per_tensor_affine histogram", "int8 -8..7 SYMMETRIC per_group 32 affine_min_max",
// "same as %x -> %conv", "same as %x", "fixed 0.00390625, 0 uint8", "derived (product_of_scales)
// from %x -> %conv, %w -> %conv".
std::string to_text(const SpecVariant& spec, const std::string& prefix = "");

// One line per annotated node in graph order, its input specs in the quantizer's order:
//   %conv2d [conv]: %x: int8 ..., %w: int8 ... => int8 ...
std::string to_text(const Graph& graph, const Annotations& annotations);

}  // namespace octet
