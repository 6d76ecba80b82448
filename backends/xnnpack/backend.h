// Runs segments of a Program with XNNPACK. Activations are channels-last inside, u8 is shifted to
// s8; both change back at the segment's border.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "backends/common/proof_cache.h"
#include "lowering/program/backend.h"

namespace octet {

class XNNPACKBackend : public Backend {
 public:
  std::string name() const override { return "xnnpack"; }
  std::map<std::string, std::string> versions() const override;
  bool takes_channels_last() const override { return true; }
  // Throws Error when XNNPACK does not start on this machine, or refuses an op (as an artifact of
  // another XNNPACK release may meet).
  std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment,
                                           int threads) const override;
};

// What the backend accepts: a table of checks by op kind, then the proof that the opened library
// creates the op.
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
