// Assigns each op of a Program to a backend and cuts the program into segments.
#pragma once

#include <vector>

#include "core/base/report.h"
#include "lowering/program/backend.h"
#include "lowering/program/program.h"

namespace octet {

// Splits integer ops that the backend refuses, but accepts in float32: such an op becomes
// dequantize, a float op and quantize. Returns how many were split; Program::reasons and `report`
// get the reasons.
int split_refused(Program& program, const BackendSupport& support, Report& report);

// Fills Program::segments and ::reasons: an op goes to the backend if it accepts the op, else to
// the fallback (empty name: throws an Error that lists the refused ops). Reorders ops where that
// makes fewer segments. Segments cannot form a cycle, because a segment starts only when all of its
// inputs are computed.
void partition(Program& program, const BackendSupport& support, const std::string& fallback,
               Report& report);

// Sample values of the symbols in addition to the hints: the least values (1 instead of 0), and
// some above the hints. Empty for a program without symbols.
std::vector<SymbolValues> probes_of(const Program& program);

// Says what a backend accepts in a Program with open sizes: an op that it accepts at the hints and
// at the probes.
class SupportAtSizes : public BackendSupport {
 public:
  // `support` must outlive this.
  explicit SupportAtSizes(const BackendSupport& support) : support_(support) {}
  std::string name() const override { return support_.name(); }
  std::map<std::string, std::string> versions() const override { return support_.versions(); }
  Verdict accepts(const Program& program, const ProgramOp& op) const override;

 private:
  const BackendSupport& support_;
};

}  // namespace octet
