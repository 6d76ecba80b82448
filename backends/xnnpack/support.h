// What the XNNPACK backend accepts: a table of checks by op kind, then the proof that the linked
// library creates the op.
#pragma once

#include <map>
#include <string>

#include "backends/common/proof_cache.h"
#include "lowering/program/backend.h"

namespace octet {

// Remembers its proofs by signature, so that asking for equal ops again is free.
class XNNPACKSupport : public BackendSupport {
 public:
  std::string name() const override { return "xnnpack"; }
  std::map<std::string, std::string> versions() const override;
  // Creates (and throws away) an XNNPACK runtime of this one op. Throws Error when XNNPACK does not
  // start on this machine.
  Verdict accepts(const Program& program, const ProgramOp& op) const override;
  bool wants_channels_last_filter(const Program& program, const ProgramOp& op) const override;

 private:
  mutable ProofCache proofs_;
};

}  // namespace octet
