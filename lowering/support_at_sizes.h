// A backend's answers about a Program whose shapes are not all fixed: yes only when it takes the op
// at other sizes too.
#pragma once

#include <vector>

#include "lowering/program/backend.h"

namespace octet {

// Values of the symbols, beside the hints, that stand for all others: the least ones (but 1 for 0),
// and some that are greater than the hints. Empty for a program without symbols.
std::vector<SymbolValues> probes_of(const Program& program);

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
