// Which backend runs which op, and the segments that follow from it.
#pragma once

#include "core/base/report.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet {

// An op that computes on integers, that the backend refuses, and that it takes in float32 (with the
// conversions around it) is replaced by those. Returns how many; the reasons enter Program::reasons
// and `report`.
int split_refused(Program& program, const BackendSupport& support, Report& report);

// Fills Program::segments and ::reasons: each op goes to the backend when it accepts, else to the
// fallback (empty name: Error that lists what stayed out). Ops are reordered where that makes fewer
// segments; no cycle can arise, a segment starts when all it reads is made.
void partition(Program& program, const BackendSupport& support, const std::string& fallback,
               Report& report);

}  // namespace octet
