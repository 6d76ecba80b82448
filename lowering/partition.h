// Assigns each op of a Program to a backend and cuts the program into segments.
#pragma once

#include <vector>

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

// Values of the symbols, beside the hints, that stand for all others: the least ones (but 1 for 0),
// and some that are greater than the hints. Empty for a program without symbols.
std::vector<SymbolValues> probes_of(const Program& program);

// What a backend accepts in a Program whose shapes are not all fixed: an op that it takes at the
// hints and at the probes.
class SupportAtSizes : public BackendSupport {
 public:
  // Both stay as long as this does.
  explicit SupportAtSizes(const BackendSupport& support) : support_(support) {}
  std::string name() const override { return support_.name(); }
  std::map<std::string, std::string> versions() const override { return support_.versions(); }
  Verdict accepts(const Program& program, const ProgramOp& op) const override;

 private:
  const BackendSupport& support_;
};

}  // namespace octet
