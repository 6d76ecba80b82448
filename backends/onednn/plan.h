// Runs a compiled segment: a flat list of calls with arguments prepared in advance. A run allocates
// nothing and looks nothing up.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/onednn/builder/segment_builder.h"
#include "lowering/program/backend.h"

namespace octet::onednn {

class OneDnnSegment : public CompiledSegment {
 public:
  // Takes the builder's steps and constants, and plans one arena for all intermediate buffers.
  // threads: at least 1.
  OneDnnSegment(SegmentBuilder& builder, int threads);
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override;
  std::vector<KernelReport> kernels() const override { return kernels_; }
  void time_kernels(bool on) override;
  std::vector<Warning> warnings() const override { return warnings_; }

 private:
  struct Call {
    dnnl::primitive primitive;
    Loop loop;
    size_t first_argument = 0;  // into arguments_, or addresses_ for loops
    size_t argument_count = 0;
  };
  // An argument that must point to the caller's tensors before each run.
  struct Patch {
    bool is_input = true;
    size_t external = 0;
    int64_t offset = 0;              // bytes
    dnnl_memory_t memory = nullptr;  // null: addresses_[address]
    size_t address = 0;
  };

  void add_step(Step& step, const std::vector<Buffer>& buffers);
  void execute(const Call& call);

  int threads_;
  dnnl::stream stream_;
  std::shared_ptr<std::byte> arena_;
  std::shared_ptr<std::byte> scratch_;  // the scratchpad, shared by all primitives
  std::vector<std::shared_ptr<void>> constants_;
  std::vector<std::byte*> base_;  // per buffer, null for inputs and outputs
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::vector<std::byte*> addresses_;
  std::vector<Patch> patches_;
  std::vector<Call> calls_;
  std::vector<KernelReport> kernels_;  // one per call
  bool is_timed_ = false;
  std::vector<Warning> warnings_;
};

}  // namespace octet::onednn
