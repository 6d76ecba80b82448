// Runs single ATen ops with LibTorch's dispatcher, where LibTorch is there anyway: what
// `octet lower --fallback torch` leaves to it. Such an op is a graph of one node, in the text form
// of graphs, so that any op is kept whole: its attributes, the bodies of its control flow, an op
// that writes into its arguments (which get copies).
//
// A Program names it as an op of kind "aten" with the attributes "op" ("aten.nanmedian.default")
// and "graph" (core/text/text.h); its inputs are those of the graph. Such a file runs in processes
// that link octet_torch_backend and call register_torch_backend(), as the command does; the runtime
// without LibTorch says in one line that it lacks the backend.
#pragma once

#include "lowering/program/backend.h"

namespace octet {

class TorchSupport : public BackendSupport {
 public:
  std::string name() const override { return "torch"; }
  std::map<std::string, std::string> versions() const override;
  // Ops of kind "aten" whose graph can be read and whose op this process knows.
  Verdict accepts(const Program& program, const ProgramOp& op) const override;
};

class TorchBackend : public Backend {
 public:
  std::string name() const override { return "torch"; }
  std::map<std::string, std::string> versions() const override;
  // LibTorch has one pool of threads for the process, which `threads` does not change. Throws
  // Error("run", op, ...) for an op that the support refuses.
  std::unique_ptr<CompiledSegment> compile(const Program& program, const Segment& segment,
                                           int threads) const override;
};

// Makes the backend known in this process; again: nothing.
void register_torch_backend();

}  // namespace octet
