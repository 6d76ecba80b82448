// Describes how the exported module is called: the call_spec of an .octet file.
#pragma once

#include <optional>
#include <string>

#include "core/graph/graph.h"
#include "lowering/program/json.h"

namespace octet {

// An input or output that the export recorded as a literal (None, a number or a string) as JSON;
// numbers that are not finite are {"float": "inf"}. Nothing for other arguments.
// Qualified: sources compiled together name another type Json.
std::optional<octet::Json> find_literal(const Argument& argument);

// The trees of containers (dicts, lists, dataclasses) that torch.export flattened, and the literals
// among their leaves; lowering/ARTIFACT.md describes the JSON. Empty when the inputs are tensors by
// position and the output is a tensor or a tuple of several, and for a graph that was not read from
// an archive. Throws Error("lower", file, ...) for a tree that is damaged.
std::string call_spec_of(const Graph& graph);

}  // namespace octet
