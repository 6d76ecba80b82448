// The Python functions on numbers that torch.export writes into graphs beside the ATen ops:
// _operator.add, math.trunc, torch.sym_max, ...
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/ivalue.h>

namespace octet {

// Takes ints, floats and bools in the order of the Python function, and gives what Python gives:
// ints floor-divide towards minus infinity, int / int is a float. Throws Error("run", subject, ...)
// on a wrong number or kind of arguments and on division by zero.
using PythonOp = c10::IValue (*)(const std::vector<c10::IValue>& arguments,
                                 const std::string& subject);

// Null for anything that is not such a function.
PythonOp find_python_op(std::string_view target);

}  // namespace octet
