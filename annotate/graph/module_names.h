// Matches nodes against the names used in settings: module paths, module classes (as in
// nn_module_stack) and ops.
#pragma once

#include "core/graph/graph.h"

namespace octet {

// The path without the "L['self']." prefix of older exports.
std::string module_path(const ModuleFrame& frame);
// True when the frame's type is `wanted`; "torch.nn.Linear" also means
// "torch.nn.modules.linear.Linear".
bool is_module_type(const ModuleFrame& frame, const std::string& wanted);
// True when the node's op is `op`, written as for Node::is ("aten.linear", "aten.linear.default")
// or bare ("linear").
bool is_op_type(const Node& node, const std::string& op);

}  // namespace octet
