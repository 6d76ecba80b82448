#include "tools/cli/conformance/float_program.h"

#include <cmath>
#include <unordered_map>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/max.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>

#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/verify.h"
#include "core/pt2/reader.h"
#include "core/text/text.h"
#include "tools/cli/conformance/cell_inputs.h"

namespace octet::conformance {
namespace {

constexpr size_t kBatches = 4;
constexpr double kLeast = 1e-3;  // greatest magnitude of a tensor that has not vanished
constexpr uint32_t kTries = 8;

at::Tensor random_constant(const std::string& fqn, const Tensor& like, at::Generator& generator) {
  const auto ends_in = [&](const char* name) { return fqn.ends_with(name); };
  const std::vector<int64_t> shape = like.shape();
  if (ends_in(".var")) return at::rand(shape, generator).add(0.5);
  const at::Tensor normal = at::randn(shape, generator);
  if (shape.size() < 2) return ends_in(".weight") ? normal.mul(0.2).add(1) : normal.mul(0.1);
  const double fan_in = static_cast<double>(like.numel()) / static_cast<double>(shape[0]);
  return normal.div(std::sqrt(std::max(fan_in, 1.0)));
}

// Sets the types that the text leaves out. Returns whether a tensor vanishes.
bool infer_types(Graph& graph, const std::vector<c10::IValue>& inputs) {
  std::unordered_map<const Value*, TensorMeta> types;
  bool vanishes = false;
  InterpreterOptions options;
  options.after_node = [&](const Node& node, const std::vector<c10::IValue>& results) {
    const std::vector<Value*> outputs = node.outputs();
    for (const c10::IValue& result : results)
      if (result.isTensor() && result.toTensor().is_floating_point())
        vanishes |= !(result.toTensor().abs().max().item<double>() >= kLeast);
    for (size_t i = 0; i < outputs.size() && i < results.size(); ++i)
      if (outputs[i] != nullptr && !outputs[i]->meta && results[i].isTensor())
        types[outputs[i]] = make_meta(from_scalar_type(results[i].toTensor().scalar_type()),
                                      results[i].toTensor().sizes().vec());
  };
  Interpreter(graph, options).run(inputs);
  for (const Node* node : graph.nodes())
    for (Value* output : node->outputs())
      if (const auto found = types.find(output); found != types.end()) output->meta = found->second;
  return vanishes;
}

void add_batches(FloatProgram& program, const at::Generator& generator) {
  CellInputs inputs(program.graph, generator);
  for (size_t batch = 0; batch < kBatches; ++batch) program.batches.push_back(inputs.next());
}

// As float_program(), with the first numbers. `vanishes`: whether they make a tensor vanish.
FloatProgram filled_program(const std::string& text, uint32_t seed, bool& vanishes) {
  FloatProgram program{parse_graph(text), {}};
  at::Generator generator = at::detail::createCPUGenerator(seed);
  for (auto& [fqn, constant] : program.graph.constants)
    constant.tensor = from_aten(random_constant(fqn, constant.tensor, generator));
  add_batches(program, generator);
  vanishes = infer_types(program.graph, program.batches[0]);
  return program;
}

}  // namespace

FloatProgram float_program(const GraphCell& cell, uint32_t seed) {
  if (!cell.file.empty()) {
    FloatProgram program{read_pt2(cell.file), {}};
    verify(program.graph);
    at::Generator generator = at::detail::createCPUGenerator(seed);
    add_batches(program, generator);
    return program;
  }
  bool vanishes = true;
  for (uint32_t i = 0; i + 1 < kTries; ++i) {
    const uint32_t other = seed + i * 7919;
    if (FloatProgram program = filled_program(cell.text(other), other, vanishes); !vanishes)
      return program;
  }
  return filled_program(cell.text(seed), seed, vanishes);
}

}  // namespace octet::conformance
