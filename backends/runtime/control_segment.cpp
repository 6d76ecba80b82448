// Runs branches and loops. Values carried between the rounds of a loop have two blocks of memory,
// used in turn: round 1 reads block 0 and writes block 1, round 2 reads block 1 and writes block 0.
// After the last round, the block that it wrote is copied to the outputs.
#include "backends/runtime/control_segment.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "backends/runtime/call_places.h"
#include "backends/runtime/compiled_program.h"
#include "core/base/error.h"
#include "lowering/program/control.h"

namespace octet {
namespace {

size_t bytes_of(const Tensor& tensor) { return tensor.nbytes(); }

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

class ControlSegment : public CompiledSegment {
 public:
  ControlSegment(const Program& program, const Segment& segment, const SessionOptions& options,
                 CompiledBodies& bodies)
      : program_(program),
        op_(program.op(segment.ops.front())),
        options_(options),
        places_(program, segment) {
    bodies.resize(program.bodies.size());
    for (int64_t index : bodies_of(op_)) {
      std::unique_ptr<CompiledProgram>& body = bodies[static_cast<size_t>(index)];
      if (body == nullptr)
        body =
            std::make_unique<CompiledProgram>(program.bodies[static_cast<size_t>(index)], options);
      bodies_.push_back(body.get());
    }
    carried_ =
        op_.is("while_loop") ? op_.outputs.size() : static_cast<size_t>(op_.get(attr::kCarried));
    if (op_.is("cond")) carried_ = 0;
    for (std::vector<Tensor>* block : {&present_, &next_})
      for (size_t k = 0; k < carried_; ++k)
        block->push_back(Tensor::zeros(program.output(op_, k).dtype, program.output(op_, k).shape));
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    places_.find(inputs, outputs);
    operands_.assign(places_.inputs().begin(), places_.inputs().end());
    results_.assign(places_.outputs().begin(), places_.outputs().end());
    if (op_.is("cond"))
      run_branch();
    else if (op_.is("while_loop"))
      run_while();
    else
      run_scan();
  }

  std::vector<KernelReport> kernels() const override {
    std::vector<KernelReport> all;
    for (CompiledProgram* body : bodies_) {
      const std::vector<KernelReport> told = body->kernels();
      all.insert(all.end(), told.begin(), told.end());
    }
    return all;
  }

  void time_kernels(bool on) override {
    for (CompiledProgram* body : bodies_) body->time_kernels(on);
  }

  std::vector<Warning> warnings() const override {
    std::vector<Warning> all;
    for (CompiledProgram* body : bodies_) {
      const std::vector<Warning> told = body->merged_warnings();
      all.insert(all.end(), told.begin(), told.end());
    }
    return all;
  }

 private:
  void run_branch() {
    const bool decision = *static_cast<const bool*>(operands_[0]);
    bodies_[decision ? 0 : 1]->run(std::span(operands_).subspan(1), results_, {}, {});
  }

  void begin_rounds() {
    for (size_t k = 0; k < carried_; ++k)
      copy_bytes(present_[k].raw(), operands_[k], bytes_of(present_[k]));
    rounds_ = 0;
  }

  void count_round() {
    if (options_.before_round) options_.before_round();
    if (options_.loop_limit != 0 && rounds_++ == options_.loop_limit)
      throw Error(
          "session", op_.name,
          fmt::format("runs more than {} rounds; raise the loop limit", options_.loop_limit));
  }

  void bind_carried() {
    for (size_t k = 0; k < carried_; ++k) {
      operands_[k] = present_[k].raw();
      round_results_[k] = next_[k].raw();
    }
  }

  void end_rounds() {
    for (size_t k = 0; k < carried_; ++k)
      copy_bytes(results_[k], present_[k].raw(), bytes_of(present_[k]));
  }

  void run_while() {
    begin_rounds();
    bool decision = false;
    void* const decided[] = {&decision};
    round_results_.resize(carried_);
    while (true) {
      bind_carried();
      bodies_[0]->run(operands_, decided, {}, {});
      if (!decision) break;
      count_round();
      bodies_[1]->run(operands_, round_results_, {}, {});
      present_.swap(next_);
    }
    end_rounds();
  }

  // Bytes of one row of a tensor of the op.
  size_t row_bytes(int index) const {
    const ProgramTensor& tensor = program_.tensor(index);
    const int64_t count = tensor.shape[0];
    return count == 0 ? 0 : static_cast<size_t>(tensor.numel() / count) * size_of(tensor.dtype);
  }

  void run_scan() {
    begin_rounds();
    const auto rows = static_cast<size_t>(op_.get(attr::kRows));
    const int64_t length = program_.input(op_, carried_).shape[0];
    round_results_.assign(results_.begin(), results_.end());
    for (int64_t i = 0; i < length; ++i) {
      count_round();
      bind_carried();
      bodies_[0]->run(operands_, round_results_, {}, {});
      present_.swap(next_);
      for (size_t k = carried_; k < carried_ + rows; ++k)
        operands_[k] = static_cast<const std::byte*>(operands_[k]) + row_bytes(op_.inputs[k]);
      for (size_t k = carried_; k < round_results_.size(); ++k)
        round_results_[k] = static_cast<std::byte*>(round_results_[k]) + row_bytes(op_.outputs[k]);
    }
    end_rounds();
  }

  const Program& program_;
  const ProgramOp& op_;
  const SessionOptions options_;
  CallPlaces places_;
  std::vector<CompiledProgram*> bodies_;
  size_t carried_ = 0;
  std::vector<Tensor> present_, next_;  // carried values
  size_t rounds_ = 0;
  std::vector<const void*> operands_;
  std::vector<void*> results_, round_results_;
};

}  // namespace

std::unique_ptr<CompiledSegment> compile_control(const Program& program, const Segment& segment,
                                                 const SessionOptions& options,
                                                 CompiledBodies& bodies) {
  if (program.op(segment.ops.front()).is("rest")) return compile_rest(program, segment, options);
  return std::make_unique<ControlSegment>(program, segment, options, bodies);
}

}  // namespace octet
