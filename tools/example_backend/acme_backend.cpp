// Compiles a segment once, and plays its queue in each run.
#include "acme_backend.h"

#include <chrono>

#include "acme_compiler.h"
#include "acme_device.h"

namespace acme {

using namespace octet;

namespace {

constexpr const char* kDriverVersion = "2.0";

class NpuSegment : public CompiledSegment {
 public:
  NpuSegment(const Program& program, const Segment& segment)
      : segment_(segment), buffers_(program.tensors.size()) {
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      for (int input : op.inputs)
        if (input >= 0 && program.tensor(input).is_constant())
          buffers_[static_cast<size_t>(input)] = program.tensor(input).data;
      for (int output : op.outputs) {
        const ProgramTensor& y = program.tensor(output);
        buffers_[static_cast<size_t>(output)] = Tensor::zeros(y.dtype, y.shape);
      }
      queues_.push_back(compile_op(program, op, buffers_));
    }
    seconds_.resize(queues_.size());
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    for (size_t i = 0; i < inputs.size(); ++i)
      buffers_[static_cast<size_t>(segment_.inputs[i])] = inputs[i];
    for (size_t i = 0; i < outputs.size(); ++i)
      buffers_[static_cast<size_t>(segment_.outputs[i])] = outputs[i];
    std::vector<Buffer> memory;
    for (const Tensor& tensor : buffers_)
      memory.push_back(tensor.defined()
                           ? Buffer{tensor.raw(), static_cast<int64_t>(tensor.nbytes())}
                           : Buffer{});
    for (size_t i = 0; i < queues_.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      device_.run(queues_[i].commands, memory);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      if (is_timed_ && (seconds_[i] == 0 || time.count() < seconds_[i])) seconds_[i] = time.count();
    }
  }

  std::vector<KernelReport> kernels() const override {
    std::vector<KernelReport> reports;
    for (size_t i = 0; i < queues_.size(); ++i) {
      const OpQueue& queue = queues_[i];
      reports.push_back({.ops = {queue.op},
                         .what = std::to_string(queue.commands.size()) + " commands",
                         .kernel = "acme_" + queue.unit,
                         .layout = "i8",
                         .post_ops = "",
                         .seconds = seconds_[i]});
    }
    return reports;
  }

  void time_kernels(bool is_timed) override {
    is_timed_ = is_timed;
    seconds_.assign(queues_.size(), 0);
  }

 private:
  const Segment segment_;
  Buffers buffers_;  // what the DMA unit reaches
  std::vector<OpQueue> queues_;
  std::vector<double> seconds_;  // per op: its fastest run
  bool is_timed_ = false;
  Device device_;
};

}  // namespace

std::map<std::string, std::string> NpuSupport::versions() const {
  return {{"acme_driver", kDriverVersion}};
}

Verdict NpuSupport::accepts(const Program& program, const ProgramOp& op) const {
  return check_op(program, op);
}

std::vector<std::string_view> NpuSupport::kinds() const { return op_kinds(); }

std::vector<Tolerance> NpuSupport::tolerances() const {
  const char* const reason = "a float bias is rounded to the steps of the sums";
  return {{"conv", 1, 0, reason}, {"linear", 1, 0, reason}, {"model", 3, 0, reason}};
}

std::map<std::string, std::string> NpuBackend::versions() const { return NpuSupport().versions(); }

std::unique_ptr<CompiledSegment> NpuBackend::compile(const Program& program, const Segment& segment,
                                                     int) const {
  return std::make_unique<NpuSegment>(program, segment);
}

}  // namespace acme
