// Arguments of nodes as the dispatcher takes them: first by what they hold, then as the op's schema
// wants it.
#pragma once

#include <string>
#include <unordered_map>

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "core/graph/graph.h"

namespace octet {

// The values that exist at one point of a run.
using Frame = std::unordered_map<const Value*, c10::IValue>;

// The argument with its values looked up in `frame`. Lists become generic lists, a DType, Layout or
// MemoryFormat its c10 number, a Subgraph None. Throws InternalError when a value is not there.
c10::IValue resolve(const Argument& argument, const Frame& frame);

// True when the argument holds a Value, so that it must be resolved anew in each run.
bool holds_values(const Argument& argument);

// `value` as `wanted` has it, with the conversions that Python makes: an int for a float, a number
// for a Tensor (then it takes no part in type promotion), one int for int[2], a one-element tensor
// for a number. Throws Error("run", subject, ...) when it does not fit.
c10::IValue coerce(c10::IValue value, const c10::Argument& wanted, const std::string& subject);

// "f32[2, 3]", "int", "None", ...: for messages.
std::string describe(const c10::IValue& value);

// The number as bool, as Python's truth of it; a tensor must have one element. Throws Error
// otherwise.
bool to_bool(const c10::IValue& value, const std::string& subject);

}  // namespace octet
