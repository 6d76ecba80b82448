// Runs single ATen ops with LibTorch's dispatcher, for `octet lower --fallback torch`. Each op is
// stored as a graph of one node in text form, so that any op is preserved completely: its
// attributes, the bodies of its control flow, and writes to its arguments (which get copies).
//
// In a Program it is an op of kind "aten" with the attributes "op" ("aten.nanmedian.default") and
// "graph" (core/text/text.h); its inputs are the graph's. Such a file runs in processes that link
// octet_torch_backend and call register_torch_backend(), as the command does. The runtime without
// LibTorch reports that it lacks the backend.
#pragma once

#include "lowering/program/backend.h"

namespace octet {

class TorchSupport : public BackendSupport {
 public:
  std::string name() const override { return "torch"; }
  std::map<std::string, std::string> versions() const override;
  // Accepts ops of kind "aten" whose graph can be parsed and whose op this process knows.
  Verdict accepts(const Program& program, const ProgramOp& op) const override;
};

class TorchBackend : public Backend {
 public:
  std::string name() const override { return "torch"; }
  std::map<std::string, std::string> versions() const override;
  // LibTorch has one thread pool per process, which `threads` does not change. Throws Error("run",
  // op, ...) for an op that the support refuses.
  std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment,
                                           int threads) const override;
};

// Registers the backend in this process; does nothing when called again.
void register_torch_backend();

}  // namespace octet
