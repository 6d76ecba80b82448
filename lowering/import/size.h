// Parses torch's expressions of sizes (sympy's srepr) into formulas.
#pragma once

#include <string>

#include "lowering/program/size_expr.h"

namespace octet {

// "Add(FloorDiv(Symbol('s0', positive=True, integer=True), Integer(2)), Integer(1))" -> s0//2 + 1.
// Throws Error("lower", subject, ...) on functions that SizeExpr does not have.
SizeExpr parse_size(const std::string& expression, const std::string& subject);

}  // namespace octet
