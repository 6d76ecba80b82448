// Runs segments of a Program with oneDNN. Activations are channels-last inside, s8 is kept as u8
// with its zero point shifted by 128 (the same reals); both change back at the segment's border.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "backends/common/proof_cache.h"
#include "lowering/program/backend.h"

namespace octet {

class OneDnnBackend : public Backend {
 public:
  std::string name() const override { return "onednn"; }
  std::map<std::string, std::string> versions() const override;
  // Creates the primitives and packs the weights. Throws Error when the linked library is not the
  // one of the headers, or refuses an op (as an artifact of another release may meet).
  std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment,
                                           int threads) const override;
};

// What the backend accepts: a table of checks by op kind, then the proof that the opened library
// creates the op.
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
