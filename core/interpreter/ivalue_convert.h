// Converts the arguments of nodes to IValues for the dispatcher: first by their content, then to
// the types of the op's schema.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace octet {

// The values that are alive at one point of a run.
using Frame = std::unordered_map<const Value*, c10::IValue>;

// Resolves an argument, taking values from `frame`. Lists become generic lists; a DType, Layout or
// MemoryFormat becomes its c10 number; a Subgraph becomes None. Throws InternalError for a missing
// value.
c10::IValue resolve(const Argument& argument, const Frame& frame);

// Whether the argument contains a Value, so that it must be resolved in each run.
bool holds_values(const Argument& argument);

// Converts `value` to the type of `wanted` as Python does: an int to a float, a number to a Tensor
// (which then does not take part in type promotion), one int to int[2], a one-element tensor to a
// number. Throws Error("run", subject, ...) when that is impossible.
c10::IValue coerce(c10::IValue value, const c10::Argument& wanted, const std::string& subject);

// "f32[2, 3]", "int", "None", ...: for messages.
std::string describe(const c10::IValue& value);

// The truth value of a number, as in Python. Throws Error for a tensor unless it has one element.
bool to_bool(const c10::IValue& value, const std::string& subject);

}  // namespace octet
