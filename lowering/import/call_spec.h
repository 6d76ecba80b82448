// Describes how the exported module is called: the call_spec of an .octet file.
#pragma once

#include <string>

#include "core/graph/graph.h"

namespace octet {

// Whether the export recorded the input or output as a literal: None, a number or a string.
bool is_literal(const Argument& argument);

// The trees of containers (dicts, lists, dataclasses) that torch.export flattened, and the literals
// among their leaves; lowering/ARTIFACT.md describes the JSON. Empty when the inputs are tensors by
// position and the output is a tensor or a tuple of several, and for a graph that was not read from
// an archive. Throws Error("lower", file, ...) for a tree that is damaged.
std::string call_spec_of(const Graph& graph);

}  // namespace octet
