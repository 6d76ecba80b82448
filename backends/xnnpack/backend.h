// Runs segments of a Program with XNNPACK. Within a segment, activations are channels-last, and u8
// is shifted to s8. Both are converted at the borders of the segment.
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
  // Throws Error when XNNPACK does not start on this machine, or refuses an op (possible when
  // another release lowered the program).
  std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment,
                                           int threads) const override;
};

// Decides which ops XNNPACK runs: checks a table by op kind, then asks the loaded library to create
// the op. Caches the answers by signature.
class XNNPACKSupport : public BackendSupport {
 public:
  std::string name() const override { return "xnnpack"; }
  std::map<std::string, std::string> versions() const override;
  // Creates an XNNPACK runtime of this op alone and discards it. Throws Error when XNNPACK does not
  // start on this machine.
  Verdict accepts(const Program& program, const ProgramOp& op) const override;
  std::vector<Tolerance> tolerances() const override;
  std::vector<std::string_view> kinds() const override;
  bool multiplies_rounded(const Program& program, const ProgramOp& op) const override;
  bool wants_channels_last_filter(const Program& program, const ProgramOp& op) const override;

 private:
  mutable ProofCache proofs_;
};

}  // namespace octet
