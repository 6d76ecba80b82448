#include "tools/cli/quantize/weight_ranges.h"

#include <cmath>
#include <map>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "annotate/graph/qdq_nodes.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"

namespace octet {
namespace {

using WeightJson = nlohmann::ordered_json;

std::vector<double> numbers_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).contiguous().reshape({-1});
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

// [channels, all the rest]
at::Tensor by_channel(const at::Tensor& tensor, int64_t axis) {
  return tensor.to(at::kFloat).movedim(axis, 0).reshape({tensor.size(axis), -1});
}

WeightJson ratios_of(const at::Tensor& original, const at::Tensor& now) {
  const std::vector<double> signal = numbers_of(original.to(at::kDouble).square().sum(1)),
                            noise = numbers_of((original - now).to(at::kDouble).square().sum(1));
  WeightJson ratios = WeightJson::array();
  for (size_t i = 0; i < signal.size(); ++i)
    if (noise[i] == 0)
      ratios.push_back("inf");
    else if (signal[i] == 0)
      ratios.push_back("-inf");
    else
      ratios.push_back(10 * std::log10(signal[i] / noise[i]));
  return ratios;
}

}  // namespace

Tensor dequantized_constant(const Graph& graph, const Node& dequantize) {
  Graph part;
  std::map<Value*, Value*> copies;
  for (Value* input : dequantize.inputs()) {
    const Tensor* constant = graph.find_constant(input);
    if (constant == nullptr) return {};
    copies[input] = part.add_constant(input->name(), *constant, InputKind::kTensorConstant);
  }
  if (copies.empty()) return {};
  std::vector<NamedArgument> arguments = dequantize.arguments();
  for (NamedArgument& argument : arguments)
    rewrite_values(argument.value, [&](Value* value) { return copies.at(value); });
  Node* twin = part.add_node(dequantize.target(), std::move(arguments), dequantize.name());
  Value* result = part.add_result(*twin, dequantize.name(), dequantize.output()->meta);
  part.add_output({result, OutputKind::kUserOutput, ""});
  return from_aten(Interpreter(part).run({}).at(0).toTensor());
}

WeightJson weight_json(const Graph& graph, const Node& dequantize, const std::string& name,
                       const Tensor& original) {
  const Tensor tensor = dequantized_constant(graph, dequantize);
  if (!tensor.defined() || tensor.shape().size() < 2 || tensor.numel() == 0) return nullptr;
  const std::optional<Quantization> quantization = find_quantization(&dequantize);
  const int64_t axis = quantization && quantization->is_per_channel && quantization->axis >= 0
                           ? quantization->axis
                           : 0;
  const Tensor* stored = graph.find_constant(dequantize.inputs().front());
  WeightJson weight = {{"name", name},
                       {"dtype", short_name_of(stored->dtype())},
                       {"shape", tensor.shape()},
                       {"axis", axis}};
  const at::Tensor now = by_channel(to_aten(tensor), axis);
  const bool has_original = original.defined() && original.shape() == tensor.shape();
  const at::Tensor shown = has_original ? by_channel(to_aten(original), axis) : now;
  weight["min"] = numbers_of(shown.amin(1));
  weight["max"] = numbers_of(shown.amax(1));
  if (quantization && quantization->scale.find<double>() != nullptr)
    weight["scale"] = {quantization->scale_number()};
  else if (quantization)
    if (const Tensor* scales = graph.find_constant(quantization->scale.value_or_null()))
      weight["scale"] = numbers_of(to_aten(*scales));
  if (has_original) weight["sqnr_db"] = ratios_of(shown, now);
  return weight;
}

}  // namespace octet
