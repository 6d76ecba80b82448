// Runs one Interpreter per op of a segment.
#include "backends/torch/torch_backend.h"

#include <algorithm>
#include <cstring>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include "backends/registry.h"
#include "core/base/error.h"
#include "core/base/tensor.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/text/text.h"
#include "lowering/program/stored_constant.h"

namespace octet {
namespace {

constexpr const char* kOpKind = "aten";

const std::string& graph_text(const ProgramOp& op) {
  if (!op.has(attr::kGraph))
    throw Error("run", op.name,
                "lacks the graph that an op of kind \"aten\" holds; the file is "
                "damaged, lower the model again");
  return op.get(attr::kGraph);
}

// An op with its graph, into which the Interpreter points.
class AtenCall {
 public:
  AtenCall(const Program& program, const ProgramOp& op)
      : program_(program), op_(op), graph_(parse_graph(graph_text(op))) {
    if (graph_.user_inputs().size() != op.inputs.size() ||
        graph_.outputs().size() != op.outputs.size())
      throw Error("run", op.name,
                  "has a graph with other inputs or outputs than the op; the file "
                  "is damaged, lower the model again");
    InterpreterOptions options;
    options.check_inputs = false;  // open sizes only have hints
    interpreter_ = std::make_unique<Interpreter>(graph_, std::move(options));
  }

  // tensors: by index.
  void run(std::map<int, Tensor>& tensors) const {
    std::vector<c10::IValue> inputs;
    for (int index : op_.inputs) inputs.emplace_back(to_aten(tensors[index]).clone());
    const std::vector<c10::IValue> results = interpreter_->run(inputs);
    for (size_t i = 0; i < op_.outputs.size(); ++i)
      keep(program_.tensor(op_.outputs[i]), from_aten(results[i].toTensor().contiguous()),
           tensors[op_.outputs[i]]);
  }

 private:
  // Writes into the caller's memory if there is any.
  void keep(const ProgramTensor& info, const Tensor& given, Tensor& kept) const {
    const Tensor result = with_true_bools(given);  // a view of other elements may have any bytes
    if (result.dtype() != info.dtype || result.shape() != info.shape)
      throw Error(
          "run", op_.name,
          fmt::format("returned {}, want {}[{}]; the op's result depends on its data, which a "
                      "lowered program cannot follow",
                      describe(result), short_name_of(info.dtype), fmt::join(info.shape, ", ")));
    if (!kept.defined()) {
      kept = result;
      return;
    }
    std::memcpy(kept.raw(), result.raw(), result.nbytes());
  }

  const Program& program_;
  const ProgramOp& op_;
  Graph graph_;
  std::unique_ptr<Interpreter> interpreter_;
};

class TorchSegment : public CompiledSegment {
 public:
  TorchSegment(const Program& program, const Segment& segment)
      : program_(program), segment_(segment) {
    for (int index : segment.ops) {
      calls_.push_back(std::make_unique<AtenCall>(program, program.op(index)));
      for (int input : program.op(index).inputs)
        if (program.tensor(input).is_constant())
          constants_.emplace(input, constant_data(program.tensor(input)));
    }
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs) override {
    std::map<int, Tensor> tensors = constants_;
    for (size_t i = 0; i < segment_.inputs.size(); ++i) tensors[segment_.inputs[i]] = inputs[i];
    for (size_t i = 0; i < segment_.outputs.size(); ++i) tensors[segment_.outputs[i]] = outputs[i];
    for (const std::unique_ptr<AtenCall>& call : calls_) call->run(tensors);
  }

 private:
  const Program& program_;
  const Segment segment_;
  std::vector<std::unique_ptr<AtenCall>> calls_;
  std::map<int, Tensor> constants_;
};

std::map<std::string, std::string> torch_versions() { return {{"torch", TORCH_VERSION}}; }

}  // namespace

std::map<std::string, std::string> TorchSupport::versions() const { return torch_versions(); }
std::map<std::string, std::string> TorchBackend::versions() const { return torch_versions(); }

Verdict TorchSupport::accepts(const Program& program, const ProgramOp& op) const {
  if (op.kind != kOpKind)
    return Verdict::refuse(fmt::format("{} is not an ATen op that was kept whole", op.kind));
  const auto is_plain = [&](int index) { return index >= 0 && !program.tensor(index).qparams; };
  if (!std::all_of(op.inputs.begin(), op.inputs.end(), is_plain) ||
      !std::all_of(op.outputs.begin(), op.outputs.end(), is_plain))
    return Verdict::refuse("it reads or writes a tensor that is absent or quantized");
  try {
    AtenCall(program, op);
  } catch (const Error& error) {
    return Verdict::refuse(error.what());
  }
  return Verdict::accept();
}

std::unique_ptr<CompiledSegment> TorchBackend::compile(const Program& program,
                                                       const Segment& segment, int) const {
  return std::make_unique<TorchSegment>(program, segment);
}

void register_torch_backend() {
  const std::vector<std::string> known = backend_names();
  if (std::find(known.begin(), known.end(), "torch") != known.end()) return;
  register_backend(
      "torch", [] { return std::make_unique<TorchBackend>(); },
      [] { return std::make_unique<TorchSupport>(); });
}

}  // namespace octet
