// Implements the backend of the Acme NPU: which ops of a lowered program it accepts, and how it
// runs them. Needs no LibTorch; acme_plugin.cpp makes a plug-in of it.
#pragma once

#include "lowering/program/backend.h"

namespace acme {

// Decides at lowering time; acme_compiler.cpp lists the ops. Everything else goes to the next
// backend.
class NpuSupport : public octet::BackendSupport {
 public:
  std::string name() const override { return "acme"; }
  std::map<std::string, std::string> versions() const override;
  octet::Verdict accepts(const octet::Program& program, const octet::ProgramOp& op) const override;
  std::vector<std::string_view> kinds() const override;
  // How far results may be from the reference's, for `octet conformance`.
  std::vector<octet::Tolerance> tolerances() const override;
};

// Runs the ops that NpuSupport accepted.
class NpuBackend : public octet::Backend {
 public:
  std::string name() const override { return "acme"; }
  std::map<std::string, std::string> versions() const override;
  // `threads` is ignored: there is one NPU.
  std::unique_ptr<octet::CompiledSegment> compile(const octet::Program& program,
                                                  const octet::Segment& segment,
                                                  int threads) const override;
};

}  // namespace acme
