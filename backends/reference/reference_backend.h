// The portable backend: runs each op as plain loops that follow lowering/program/ops.def
// exactly. It defines the expected results of other backends, and runs the ops that they refuse.
#pragma once

#include "lowering/program/backend.h"

namespace octet {

class ReferenceSupport : public BackendSupport {
 public:
  std::string name() const override { return "reference"; }
  std::map<std::string, std::string> versions() const override { return {}; }
  Verdict accepts(const Program& program, const ProgramOp& op) const override;
  std::vector<std::string_view> kinds() const override;
};

class ReferenceBackend : public Backend {
 public:
  std::string name() const override { return "reference"; }
  std::map<std::string, std::string> versions() const override { return {}; }
  // `threads` is ignored: the kernels are serial.
  std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment,
                                           int threads) const override;
};

}  // namespace octet
