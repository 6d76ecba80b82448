// Assigns each op of a Program to a backend and cuts the program into segments.
#pragma once

#include <string>
#include <vector>

#include "core/base/report.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet {

// Splits integer ops that every backend refuses, but one accepts in float32: such an op becomes
// dequantize, a float op and quantize. Returns how many were split; Program::reasons and `report`
// get the reasons.
int split_refused(Program& program, const Supports& supports, Report& report);

// Fills Program::segments and ::reasons: an op goes to the first backend that accepts it, else to
// the fallback (empty name: throws an Error that lists the refused ops). In a program with open
// sizes, a backend accepts an op if it does so at the hints and at the probes. The ops of a segment
// that is not worth its transfers (BackendSupport::transfer_cost) go to the next backend that
// accepts them. Reorders ops where that makes fewer segments. Segments cannot form a cycle, because
// a segment starts only when all of its inputs are computed.
void partition(Program& program, const Supports& supports, const std::string& fallback,
               Report& report);

// Sample values of the symbols in addition to the hints: the least values (1 instead of 0), and
// some above the hints. Empty for a program without symbols.
std::vector<SymbolValues> probes_of(const Program& program);

// Whether the backend accepts the op, in a program with open sizes at the hints and at the probes.
Verdict ask_at_sizes(const BackendSupport& support, const Program& program, const ProgramOp& op);

// "onednn", "acme_npu,xnnpack".
std::string names_of(const Supports& supports);

}  // namespace octet
