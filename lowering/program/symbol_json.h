// Shape symbols and formulas in the JSON of an artifact. A formula is a number, or a list in
// postfix order: ["s0", -1, "+", 2, "//"].
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "lowering/program/program.h"

namespace octet {

nlohmann::json symbols_to_json(const std::vector<ShapeSymbol>& symbols);
nlohmann::json sizes_to_json(const std::vector<SizeExpr>& sizes);

// Throw std::invalid_argument or a Json exception on anything that is malformed; verify() checks
// what the symbols mean.
std::vector<ShapeSymbol> symbols_from_json(const nlohmann::json& json);
std::vector<SizeExpr> sizes_from_json(const nlohmann::json& json);

}  // namespace octet
