// Finds the overload that a call without one means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/graph.h"

namespace octet {

// All overloads of "aten.max" that the dispatcher knows, sorted: {"aten.max.default", "aten.max.dim", ...}.
std::vector<std::string> overloads_of(std::string_view op);

// Completes an op without overload: its ".default" when it has one, else the only overload that the arguments fit (positional ones have an
// empty name). Returns "" when none or several fit; the candidates go to `candidates`.
std::string choose_overload(std::string_view op, const std::vector<NamedArgument>& arguments, std::vector<std::string>* candidates);

}  // namespace octet
