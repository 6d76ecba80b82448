// How settings name nodes: by the module around them, its class, their op. Names and classes are
// those of nn_module_stack.
#pragma once

#include <string>

#include "core/graph/graph.h"

namespace octet {

// The path without the "L['self']." that older exports put before it.
std::string module_path(const ModuleFrame& frame);
// True when the frame's type is `wanted`; "torch.nn.Linear" also means
// "torch.nn.modules.linear.Linear".
bool is_module_type(const ModuleFrame& frame, const std::string& wanted);
// True when the node's op is `op`, written as for Node::is ("aten.linear", "aten.linear.default")
// or bare ("linear").
bool is_op_type(const Node& node, const std::string& op);

}  // namespace octet
