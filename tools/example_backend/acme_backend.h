// Implements the backend of the Acme NPU: which ops of a lowered program it accepts, and how it
// runs them. Needs no LibTorch.
#pragma once

#include "lowering/program/backend.h"

namespace acme {

// Decides at lowering time: linear layers and 2-d convolutions (one group, no dilation) of int8
// with constant int8 weights and zero point 0. Everything else goes to the fallback.
class NpuSupport : public octet::BackendSupport {
 public:
  std::string name() const override { return "acme"; }
  std::map<std::string, std::string> versions() const override;
  octet::Verdict accepts(const octet::Program& program, const octet::ProgramOp& op) const override;
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

// Registers the backend as "acme".
void register_npu();

}  // namespace acme
