// Finds the overload that a call without one means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/graph/graph.h"

namespace octet {

// All overloads of "aten.max" that the dispatcher knows, sorted: {"aten.max.default",
// "aten.max.dim", ...}.
std::vector<std::string> overloads_of(std::string_view op);

// Completes an op without overload: its ".default" when that fits, else the only overload that the
// arguments fit (positional ones have an empty name), else ".default" when nothing fits. Returns ""
// when it stays unclear; the candidates go to `candidates`.
std::string choose_overload(std::string_view op, const std::vector<NamedArgument>& arguments,
                            std::vector<std::string>* candidates);

}  // namespace octet
