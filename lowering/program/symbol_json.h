// Shape symbols and formulas in the JSON of an artifact. A formula is a number, or a list in
// postfix order: ["s0", -1, "+", 2, "//"].
#pragma once

#include "lowering/program/json.h"
#include "lowering/program/program.h"

namespace octet {

Json symbols_to_json(const std::vector<ShapeSymbol>& symbols);
Json sizes_to_json(const std::vector<SizeExpr>& sizes);

// Throw std::invalid_argument or a Json exception on anything that is malformed; verify() checks
// what the symbols mean.
std::vector<ShapeSymbol> symbols_from_json(const Json& json);
std::vector<SizeExpr> sizes_from_json(const Json& json);

}  // namespace octet
