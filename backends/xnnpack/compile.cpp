#include "backends/xnnpack/compile.h"

#include <algorithm>
#include <variant>

#include "backends/xnnpack/fallback_ops.h"
#include "backends/xnnpack/stage.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "lowering/program/stored_constant.h"

namespace octet::xnnpack {
namespace {

// A copy whose one or both ends lie in our own buffers.
struct BorderCopy {
  size_t border;  // index into the segment's inputs or outputs
  Shuffle shuffle;
  std::byte* buffer;
};

// Between runtimes.
struct InnerCopy {
  std::variant<Shuffle, StridedCopy, ByteSoftmax, RowQuantization, RowProduct> how;
  const std::byte* from;
  std::byte* to;
};

template <typename How>
void run_inner(const How& how, const InnerCopy& copy, pthreadpool_t) {
  xnnpack::run(how, copy.from, copy.to);
}
void run_inner(const RowQuantization& how, const InnerCopy& copy, pthreadpool_t pool) {
  xnnpack::run(how, copy.from, copy.to, pool);
}
void run_inner(const RowProduct& how, const InnerCopy& copy, pthreadpool_t pool) {
  how.run(copy.from, copy.to, pool);
}

struct CompiledStage {
  std::vector<InnerCopy> before;
  StageRuntime stage;  // without a runtime when nothing is left for it
};

class XNNPACKSegment : public CompiledSegment {
 public:
  XNNPACKSegment(const Program& program, std::span<const ProgramOp* const> ops,
                 std::span<const int> inputs, std::span<const int> outputs, int threads) {
    if (threads > 1) pool_.reset(pthreadpool_create(static_cast<size_t>(threads)));
    const Plan plan = make_plan(program, ops, inputs, outputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (const BufferKey& key : plan.imports) {
        if (key.tensor == inputs[i])
          imports_.push_back({i, shuffle_of(program, key.tensor, Order::kRowMajor, key.order, true),
                              buffer(program, key)});
      }
    }
    for (const Stage& stage : plan.stages) add(program, stage);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const BufferKey& key = plan.exports[i];
      exports_.push_back({i, shuffle_of(program, key.tensor, key.order, Order::kRowMajor, true),
                          buffer(program, key)});
    }
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    for (const BorderCopy& copy : imports_)
      xnnpack::run(copy.shuffle, inputs[copy.border].raw(), copy.buffer);
    for (const CompiledStage& compiled : stages_) {
      for (const InnerCopy& copy : compiled.before)
        std::visit([&](const auto& how) { run_inner(how, copy, pool_.get()); }, copy.how);
      if (compiled.stage.runtime == nullptr) continue;
      const xnn_status status = xnn_invoke_runtime(compiled.stage.runtime.get());
      OCTET_ASSERT(status == xnn_status_success, "a runtime that was set up runs");
    }
    for (const BorderCopy& copy : exports_)
      xnnpack::run(copy.shuffle, copy.buffer, outputs[copy.border].raw());
  }

 private:
  // at_border: outside of it u8 is u8, inside it is s8.
  static Shuffle shuffle_of(const Program& program, int tensor, Order from, Order to,
                            bool at_border) {
    const ProgramTensor& t = program.tensor(tensor);
    return shuffle_between(t, from, to, at_border && t.dtype == DType::kUInt8);
  }

  static RowLayout rows_of(const ProgramTensor& tensor) {
    return {tensor.numel() / tensor.shape.back(), tensor.shape.back()};
  }

  std::byte* buffer(const Program& program, const BufferKey& key) {
    Tensor& found = buffers_[key];
    if (!found.defined()) {
      const ProgramTensor& tensor = program.tensor(key.tensor);
      const int64_t bytes =
          key.order == Order::kBytes
              ? static_cast<int64_t>(rows_of(tensor).bytes())
              : tensor.numel() * static_cast<int64_t>(size_of(tensor.dtype)) + XNN_EXTRA_BYTES;
      found = Tensor::zeros(DType::kUInt8, {bytes});
      if (tensor.is_constant())
        xnnpack::run(shuffle_of(program, key.tensor, Order::kRowMajor, Order::kRowMajor, true),
                     constant_data(tensor).contiguous().raw(), found.raw());
    }
    return found.raw();
  }

  void add(const Program& program, const Stage& stage) {
    CompiledStage compiled;
    for (const HostStep& step : stage.before) add(program, step, compiled.before);
    if (!stage.ops.empty()) compile_runtime(program, stage, compiled);
    stages_.push_back(std::move(compiled));
  }

  void add(const Program& program, const HostStep& step, std::vector<InnerCopy>& copies) {
    if (step.op == nullptr) {
      const Shuffle shuffle =
          shuffle_of(program, step.from[0].tensor, step.from[0].order, step.to.order, false);
      copies.push_back({shuffle, buffer(program, step.from[0]), buffer(program, step.to)});
      return;
    }
    std::vector<Order> orders;
    for (const BufferKey& key : step.from) orders.push_back(key.order);
    for (const OwnStep& own : own_steps(program, *step.op, orders, step.to.order, pool_.get())) {
      const decltype(InnerCopy::how) how =
          std::visit([](const auto& step) -> decltype(InnerCopy::how) { return step; }, own.how);
      copies.push_back({how, buffer(program, step.from[own.input]), buffer(program, step.to)});
    }
    if (own_orders(*step.op).from == Order::kBytes) release_weights(program, *step.op);
  }

  // XNNPACK has packed copies of its own by now.
  static void release_weights(const Program& program, const ProgramOp& op) {
    for (int index : op.inputs) {
      if (index < 0 || !program.tensor(index).is_constant()) continue;
      const ProgramTensor& constant = program.tensor(index);
      release_pages(constant.stored ? constant.stored->values : constant.data);
    }
  }

  void compile_runtime(const Program& program, const Stage& stage, CompiledStage& compiled) {
    StageBuilder builder(program, stage);
    for (const PlannedOp& planned : stage.ops) {
      try {
        planned.row->emit(builder, *planned.op, planned.forms);
      } catch (const Refusal& refusal) {
        throw Refusal(planned.op->name + ": " + refusal.what());
      }
    }
    compiled.stage = builder.finish(pool_.get());
    for (const PlannedOp& planned : stage.ops) release_weights(program, *planned.op);
    std::vector<xnn_external_value> values;
    for (const std::pair<const BufferKey, uint32_t>& id : compiled.stage.ids)
      values.push_back({id.second, buffer(program, id.first)});
    require_success(xnn_setup_runtime(compiled.stage.runtime.get(), values.size(), values.data()),
                    "xnn_setup_runtime");
  }

  ThreadPoolHandle pool_;  // outlives the runtimes
  std::map<BufferKey, Tensor> buffers_;
  std::vector<BorderCopy> imports_;
  std::vector<CompiledStage> stages_;
  std::vector<BorderCopy> exports_;
};

}  // namespace

std::unique_ptr<CompiledSegment> compile(const Program& program,
                                         std::span<const ProgramOp* const> ops,
                                         std::span<const int> inputs, std::span<const int> outputs,
                                         int threads) {
  initialize();
  return std::make_unique<XNNPACKSegment>(program, ops, inputs, outputs, threads);
}

}  // namespace octet::xnnpack
