// Real models, op by op: each op of the lowered program, on inputs from the interpreted q/dq graph,
// agrees with that graph within one output step. Over a whole model such steps add up, as they do
// between two float kernels of PyTorch itself; here they cannot.
#include <algorithm>
#include <cmath>
#include <map>

#include <catch2/catch.hpp>

#include "annotate/calibrate/calibrate.h"
#include "annotate/convert/convert.h"
#include "backends/registry.h"
#include "backends/runtime/session.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/pt2/reader.h"
#include "lowering/lower.h"
#include "quantizers/registry.h"
#include "tests/support/golden.h"

namespace octet::test_models_by_op {
using namespace test;

namespace {

// The q/dq graph of a golden folder's model, by Octet's own choices.
Graph quantized_graph(const GoldenCase& golden) {
  Report report;
  ObservedGraph observed =
      prepare_pt2e(read_pt2(golden.folder / "model.pt2"), *make_quantizer("xnnpack"), report);
  calibrate(observed, golden.calibration());
  return convert_pt2e(std::move(observed), {}, report);
}

// Every tensor that the graph computes, by the name of its Value.
std::map<std::string, Tensor> interpreted_values(const Graph& graph,
                                                 const std::vector<c10::IValue>& inputs) {
  std::map<std::string, Tensor> values;
  size_t i = 0;
  for (const Value* input : graph.user_inputs())
    values[input->name()] = from_aten(inputs.at(i++).toTensor().contiguous().clone());
  InterpreterOptions options;
  options.after_node = [&](const Node& node, const std::vector<c10::IValue>& results) {
    const std::vector<Value*> outputs = node.outputs();
    for (size_t k = 0; k < outputs.size() && k < results.size(); ++k)
      if (results[k].isTensor())
        values[outputs[k]->name()] = from_aten(results[k].toTensor().contiguous().clone());
  };
  Interpreter(graph, options).run(inputs);
  return values;
}

// The program of one op; its inputs are those that are not constants.
Program program_of(const Program& whole, const ProgramOp& op, const std::string& backend) {
  Program part;
  part.backend = backend;
  part.versions = whole.versions;
  std::map<int, int> place;
  const auto take = [&](int index, ProgramTensor::Role role) {
    if (index < 0) return -1;
    const auto [at, is_new] = place.try_emplace(index, static_cast<int>(part.tensors.size()));
    if (is_new) {
      part.tensors.push_back(whole.tensor(index));
      if (!part.tensors.back().is_constant()) {
        part.tensors.back().role = role;
        if (role == ProgramTensor::Role::kInput) part.inputs.push_back(at->second);
      }
    }
    return at->second;
  };
  ProgramOp copy = op;
  for (int& input : copy.inputs) input = take(input, ProgramTensor::Role::kInput);
  for (int& output : copy.outputs) output = take(output, ProgramTensor::Role::kOutput);
  part.outputs = copy.outputs;
  part.segments = {{backend, {0}, part.inputs, part.outputs}};
  part.ops = {std::move(copy)};
  return part;
}

// In steps of the tensor's scale (floats: of 1e-4 of the greatest element).
double greatest_difference(const Tensor& want, const Tensor& got) {
  const at::Tensor a = to_aten(want).to(at::kDouble).contiguous(),
                   b = to_aten(got).to(at::kDouble).contiguous();
  double greatest = 0, magnitude = 1;
  for (int64_t i = 0; i < a.numel(); ++i) {
    greatest = std::max(greatest, std::abs(a.data_ptr<double>()[i] - b.data_ptr<double>()[i]));
    magnitude = std::max(magnitude, std::abs(a.data_ptr<double>()[i]));
  }
  return is_integer(want.dtype()) ? greatest : greatest / (1e-4 * magnitude);
}

struct Tally {
  int checked = 0, skipped = 0;
  double worst = 0;
  std::string where;
};

Tally check_ops(const Program& program, const std::map<std::string, Tensor>& values,
                const std::string& backend) {
  Tally tally;
  for (const Segment& segment : program.segments) {
    for (int index : segment.ops) {
      const ProgramOp& op = program.op(index);
      const Program part = program_of(program, op, segment.backend);
      std::vector<Tensor> inputs;
      const auto known = [&](int tensor) {
        const auto found = values.find(part.tensor(tensor).name);
        return found == values.end() || found->second.dtype() != part.tensor(tensor).dtype
                   ? Tensor()
                   : found->second;
      };
      for (int input : part.inputs) inputs.push_back(known(input));
      const Tensor want = known(part.outputs.front());
      if (!want.defined() ||
          !std::all_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.defined(); })) {
        ++tally.skipped;  // a tensor that fusion made has no twin in the graph
        continue;
      }
      const double difference = greatest_difference(want, Session(part).run(inputs).front());
      ++tally.checked;
      if (difference > tally.worst) {
        tally.worst = difference;
        tally.where = backend + " " + op.kind + " " + op.name;
      }
    }
  }
  return tally;
}

void check_model(const std::string& name) {
  for (const GoldenCase& golden : golden_cases(name)) {
    if (golden.name() != name) continue;
    const Graph graph = quantized_graph(golden);
    const std::map<std::string, Tensor> values = interpreted_values(graph, golden.example());
    for (const std::string& backend : backend_names()) {
      Report report;
      const Program program = lower(graph, *make_support(backend), {}, report);
      const Tally tally = check_ops(program, values, backend);
      CAPTURE(tally.where, tally.checked, tally.skipped);
      CHECK_FALSE(tally.worst > 1.0);
      CHECK_FALSE(tally.checked < 4 * tally.skipped);
    }
  }
}

}  // namespace

TEST_CASE("each op of EfficientNet-Lite0 stays within one step on every backend",
          "[lowering][models][long]") {
  check_model("real_efficientnet_lite0");
}
TEST_CASE("each op of ResNet18 stays within one step on every backend",
          "[lowering][models][long]") {
  check_model("real_resnet18");
}
TEST_CASE("each op of MobileNetV2 stays within one step on every backend",
          "[lowering][models][long]") {
  check_model("real_mobilenet_v2");
}

}  // namespace octet::test_models_by_op
