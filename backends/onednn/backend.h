// Runs segments of a Program with oneDNN. Within a segment, activations are channels-last, and s8
// is stored as u8 with the zero point raised by 128 (the real values are equal). Both are converted
// at the borders of the segment.
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
  // Creates the primitives and packs the weights. Throws Error when the loaded library does not
  // match the headers, or refuses an op (possible when another release lowered the program).
  std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment,
                                           int threads) const override;
};

// Decides which ops oneDNN runs: checks a table by op kind, then asks the loaded library to create
// the op. Caches the answers by signature. Thread-safe.
class OneDnnSupport : public BackendSupport {
 public:
  std::string name() const override { return "onednn"; }
  std::map<std::string, std::string> versions() const override;
  // Plans a segment of this op alone, up to its primitive descriptors, and discards it.
  Verdict accepts(const Program& program, const ProgramOp& op) const override;
  std::vector<Tolerance> tolerances() const override;
  std::vector<std::string_view> kinds() const override;
  bool multiplies_rounded(const Program& program, const ProgramOp& op) const override;

 private:
  mutable ProofCache proofs_;
};

}  // namespace octet
