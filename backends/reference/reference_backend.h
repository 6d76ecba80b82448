// The portable backend: each op as plain loops that follow lowering/program/program.h to the
// letter. It is the meaning that other backends are compared with, and it runs what they leave.
#pragma once

#include "lowering/program/backend.h"

namespace octet {

class ReferenceSupport : public BackendSupport {
 public:
  std::string name() const override { return "reference"; }
  std::map<std::string, std::string> versions() const override { return {}; }
  Verdict accepts(const Program& program, const ProgramOp& op) const override;
};

class ReferenceBackend : public Backend {
 public:
  std::string name() const override { return "reference"; }
  std::map<std::string, std::string> versions() const override { return {}; }
  // `threads` is accepted and ignored: the kernels are serial.
  std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment,
                                           int threads) const override;
};

}  // namespace octet
