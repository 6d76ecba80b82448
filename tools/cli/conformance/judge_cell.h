// Runs a cell that may throw.
#pragma once

#include <functional>
#include <string>

#include "backends/conformance/conformance.h"

namespace octet::conformance {

// The result that `run` fills in, with its time. An exception makes the cell wrong; the program
// that `run` sets is kept for cells that do not pass. Throws nothing.
CellResult judge_cell(const std::string& name, const std::string& kind,
                      const std::function<void(CellResult& result)>& run);

}  // namespace octet::conformance
