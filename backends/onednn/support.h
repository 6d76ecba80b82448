// What the oneDNN backend accepts: a table of checks by op kind, then the proof that the linked
// library creates the primitives.
#pragma once

#include <map>
#include <string>

#include "backends/common/proof_cache.h"
#include "lowering/program/backend.h"

namespace octet {

// Remembers its proofs by signature, so that asking for equal ops again is free. Thread-safe.
class OneDnnSupport : public BackendSupport {
 public:
  std::string name() const override { return "onednn"; }
  std::map<std::string, std::string> versions() const override;
  // Plans a segment of this one op down to its primitive descriptors, and throws the plan away.
  Verdict accepts(const Program& program, const ProgramOp& op) const override;

 private:
  mutable ProofCache proofs_;
};

}  // namespace octet
