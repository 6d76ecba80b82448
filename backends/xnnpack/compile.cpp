#include "backends/xnnpack/compile.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/xnnpack/custom_ops.h"
#include "backends/xnnpack/kernels/parts.h"
#include "backends/xnnpack/memory.h"
#include "backends/xnnpack/stage.h"
#include "core/base/error.h"
#include "core/base/mapped_file.h"
#include "lowering/program/stored_constant.h"

namespace octet::xnnpack {
namespace {

// A copy between the segment's border and its buffers.
struct BorderCopy {
  size_t border;  // index into the segment's inputs or outputs
  Shuffle shuffle;
  std::byte* buffer;
};

// Whether only attention reads the segment input: a cache, which it reads where the caller has it.
bool is_read_in_place(const Plan& plan, const BufferKey& key) {
  const auto is_elsewhere = [&](const HostStep& step) {
    return (step.op == nullptr || !step.op->is("attention")) &&
           std::find(step.from.begin(), step.from.end(), key) != step.from.end();
  };
  return key.order == Order::kRowMajor &&
         std::none_of(plan.stages.begin(), plan.stages.end(), [&](const Stage& stage) {
           return stage.reads.contains(key) ||
                  std::any_of(stage.before.begin(), stage.before.end(), is_elsewhere);
         });
}

// A call between runtimes.
struct HostCall {
  std::variant<Shuffle, CustomKernel> how;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
};

struct HostMemory {
  std::byte* scratch;
  pthreadpool_t pool;
};

void run_kernel(const SharedRecurrentLayer& layer, const HostCall& call, const HostMemory& memory) {
  layer->run(call.from, call.to, memory.scratch, parallel_on(memory.pool));
}

// Kernels of backends/kernels take a Parallel, those of this backend the pool.
template <typename Kernel>
void run_kernel(const Kernel& kernel, const HostCall& call, const HostMemory& memory) {
  std::byte* const to = call.to[0];
  if constexpr (requires { kernel.run(call.from, to, memory.scratch, parallel_on(memory.pool)); })
    kernel.run(call.from, to, memory.scratch, parallel_on(memory.pool));
  else
    kernel.run(call.from, to, memory.scratch, memory.pool);
}

void run_host(const HostCall& call, const HostMemory& memory) {
  if (const Shuffle* shuffle = std::get_if<Shuffle>(&call.how))
    return xnnpack::run(*shuffle, call.from[0], call.to[0]);
  std::visit([&](const auto& kernel) { run_kernel(kernel, call, memory); },
             std::get<CustomKernel>(call.how));
}

constexpr size_t kCacheLine = 64;

std::byte* aligned(std::byte* address) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  return address + (kCacheLine - at % kCacheLine) % kCacheLine;
}

size_t scratch_of(const CustomKernel& kernel) {
  if (const SharedRecurrentLayer* layer = std::get_if<SharedRecurrentLayer>(&kernel))
    return (*layer)->scratch_bytes();
  return std::visit(
      [](const auto& how) -> size_t {
        if constexpr (requires { how.scratch_bytes(); }) return how.scratch_bytes();
        return 0;
      },
      kernel);
}

struct CompiledStage {
  std::vector<HostCall> before;
  StageRuntime stage;  // without a runtime when no op needs one
};

// Records the shortest time of each call while it is on.
class Stopwatch {
 public:
  void set(bool on) {
    is_on_ = on;
    seconds_.clear();
  }
  double seconds(size_t call) const { return call < seconds_.size() ? seconds_[call] : 0; }
  // Runs `body` as the call at that position.
  template <typename Body>
  void run(size_t call, const Body& body) {
    if (!is_on_) return body();
    const Clock::time_point start = Clock::now();
    body();
    const double taken = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds_.size() <= call) seconds_.resize(call + 1);
    seconds_[call] = seconds_[call] == 0 ? taken : std::min(seconds_[call], taken);
  }

 private:
  using Clock = std::chrono::steady_clock;
  bool is_on_ = false;
  std::vector<double> seconds_;
};

class XNNPACKSegment : public CompiledSegment {
 public:
  XNNPACKSegment(const Program& program, std::span<const ProgramOp* const> ops,
                 std::span<const int> inputs, std::span<const int> outputs, int threads) {
    if (threads > 1) pool_.reset(pthreadpool_create(static_cast<size_t>(threads)));
    const Plan plan = make_plan(program, ops, inputs, outputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (const BufferKey& key : plan.imports) {
        if (key.tensor != inputs[i]) continue;
        if (is_read_in_place(plan, key))
          in_place_[key] = i;
        else
          imports_.push_back({i, shuffle_of(program, key.tensor, Order::kRowMajor, key.order, true),
                              buffer(program, key)});
      }
    }
    report({}, "copy of the inputs", "custom", "rows -> any order");
    for (const Stage& stage : plan.stages) add(program, stage);
    report({}, "copy of the outputs", "custom", "any order -> rows");
    scratch_ = Tensor::zeros(DType::kUInt8, {static_cast<int64_t>(scratch_bytes_ + kCacheLine)});
    for (size_t i = 0; i < outputs.size(); ++i) {
      const BufferKey& key = plan.exports[i];
      exports_.push_back({i, shuffle_of(program, key.tensor, key.order, Order::kRowMajor, true),
                          buffer(program, key)});
    }
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    const HostMemory memory = {aligned(scratch_.raw()), pool_.get()};
    size_t call = 0;
    stopwatch_.run(call++, [&] {
      for (const BorderCopy& copy : imports_)
        xnnpack::run(copy.shuffle, inputs[copy.border].raw(), copy.buffer);
      for (const Lent& lent : lent_)
        stages_[lent.stage].before[lent.call].from[lent.position] = inputs[lent.border].raw();
    });
    for (const CompiledStage& compiled : stages_) {
      for (const HostCall& host : compiled.before)
        stopwatch_.run(call++, [&] { run_host(host, memory); });
      if (compiled.stage.runtime == nullptr) continue;
      stopwatch_.run(call++, [&] {
        const xnn_status status = xnn_invoke_runtime(compiled.stage.runtime.get());
        OCTET_ASSERT(status == xnn_status_success, "a runtime that was set up runs");
      });
    }
    stopwatch_.run(call++, [&] {
      for (const BorderCopy& copy : exports_)
        xnnpack::run(copy.shuffle, copy.buffer, outputs[copy.border].raw());
    });
  }

  std::vector<KernelReport> kernels() const override {
    std::vector<KernelReport> reports = reports_;
    for (size_t i = 0; i < reports.size(); ++i) reports[i].seconds = stopwatch_.seconds(i);
    return reports;
  }

  void time_kernels(bool on) override { stopwatch_.set(on); }

 private:
  // at_border: converts u8 outside to s8 inside, or back.
  static Shuffle shuffle_of(const Program& program, int tensor, Order from, Order to,
                            bool at_border) {
    const ProgramTensor& t = program.tensor(tensor);
    return shuffle_between(t, from, to, at_border && t.dtype == DType::kUInt8);
  }

  static RowLayout rows_of(const ProgramTensor& tensor, Order order) {
    const int64_t width = order == Order::kPixelBytes ? tensor.shape[1] : tensor.shape.back();
    return {tensor.numel() / width, width};
  }

  std::byte* buffer(const Program& program, const BufferKey& key) {
    Tensor& found = buffers_[key];
    if (!found.defined()) {
      const ProgramTensor& tensor = program.tensor(key.tensor);
      const int64_t bytes =
          key.order == Order::kBytes || key.order == Order::kPixelBytes
              ? static_cast<int64_t>(rows_of(tensor, key.order).bytes())
              : tensor.numel() * static_cast<int64_t>(size_of(tensor.dtype)) + kExtraBytes;
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

  void add(const Program& program, const HostStep& step, std::vector<HostCall>& calls) {
    std::vector<std::byte*> to = {buffer(program, step.to)};
    for (const BufferKey& key : step.further) to.push_back(buffer(program, key));
    if (step.op == nullptr) {
      const Shuffle shuffle =
          shuffle_of(program, step.from[0].tensor, step.from[0].order, step.to.order, false);
      calls.push_back({shuffle, {buffer(program, step.from[0])}, to});
      report({}, "change of order", "custom",
             layout_of(program, {step.from[0].tensor}, step.to.tensor));
      return;
    }
    std::vector<Order> orders;
    for (const BufferKey& key : step.from) orders.push_back(key.order);
    for (const CustomStep& custom :
         custom_steps(program, *step.op, orders, step.to.order, pool_.get())) {
      std::vector<const std::byte*> from;
      for (const size_t input : custom.inputs) {
        const auto found = in_place_.find(step.from[input]);
        if (found != in_place_.end())
          lent_.push_back({found->second, stages_.size(), calls.size(), from.size()});
        from.push_back(found != in_place_.end() ? nullptr : buffer(program, step.from[input]));
      }
      scratch_bytes_ = std::max(scratch_bytes_, scratch_of(custom.kernel));
      calls.push_back({custom.kernel, std::move(from), to});
      report({step.op->name}, step.op->kind, "custom",
             layout_of(program, step.op->inputs, step.op->outputs[0]));
    }
    if (step.op->is("linear") || step.op->is("conv") || step.op->is("recurrent"))
      release_weights(program, *step.op);
  }

  // "f32 f32 -> s8": the types that an op reads and writes.
  static std::string layout_of(const Program& program, const std::vector<int>& inputs, int output) {
    std::string text;
    for (const int index : inputs)
      if (index >= 0) text += std::string(short_name_of(program.tensor(index).dtype)) + " ";
    return text + "-> " + std::string(short_name_of(program.tensor(output).dtype));
  }

  void report(std::vector<std::string> ops, std::string what, std::string kernel,
              std::string layout) {
    reports_.push_back({std::move(ops), std::move(what), std::move(kernel), std::move(layout), {}});
  }

  // XNNPACK, or the custom kernel, has made packed copies.
  static void release_weights(const Program& program, const ProgramOp& op) {
    for (int index : op.inputs) {
      if (index < 0 || !program.tensor(index).is_constant()) continue;
      const ProgramTensor& constant = program.tensor(index);
      release_pages(constant.stored ? bytes_of(*constant.stored) : constant.data);
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
    std::vector<std::string> names, kinds;
    for (const PlannedOp& planned : stage.ops) {
      names.push_back(planned.op->name);
      if (std::find(kinds.begin(), kinds.end(), planned.op->kind) == kinds.end())
        kinds.push_back(planned.op->kind);
    }
    report(names, fmt::format("{}", fmt::join(kinds, " ")), "XNNPACK", "subgraph");
    for (const PlannedOp& planned : stage.ops) release_weights(program, *planned.op);
    std::vector<xnn_external_value> values;
    for (const std::pair<const BufferKey, uint32_t>& id : compiled.stage.ids)
      values.push_back({id.second, buffer(program, id.first)});
    require_success(xnn_setup_runtime(compiled.stage.runtime.get(), values.size(), values.data()),
                    "xnn_setup_runtime");
  }

  ThreadPoolHandle pool_;  // must outlive the runtimes
  std::map<BufferKey, Tensor> buffers_;
  std::vector<BorderCopy> imports_;
  std::map<BufferKey, size_t> in_place_;  // inputs that are read where they are, by position
  // An argument of a call that is a segment input.
  struct Lent {
    size_t border, stage, call, position;
  };
  std::vector<Lent> lent_;
  std::vector<CompiledStage> stages_;
  std::vector<BorderCopy> exports_;
  size_t scratch_bytes_ = 0;
  Tensor scratch_;                     // used by one host call at a time
  std::vector<KernelReport> reports_;  // in the order of the calls
  Stopwatch stopwatch_;
};

}  // namespace

std::unique_ptr<CompiledSegment> compile(const Program& program,
                                         std::span<const ProgramOp* const> ops,
                                         std::span<const int> inputs, std::span<const int> outputs,
                                         int threads) {
  initialize();
  take_failure();  // from an earlier, failed compilation
  return std::make_unique<XNNPACKSegment>(program, ops, inputs, outputs, threads);
}

}  // namespace octet::xnnpack
