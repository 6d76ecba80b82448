// Compares each weight of a quantized program, dequantized, with the float weight. If channels were
// scaled by powers of two (channel_space.h), the float weight is scaled in the same way first.
#include "annotate/compare/compare.h"

#include <algorithm>
#include <cmath>

#include <ATen/Functions.h>

#include "annotate/compare/shadow_graph.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/ops/weighted_ops.h"
#include "core/passes/fold_conv_bn.h"
#include "core/passes/rewrites.h"

namespace octet {
namespace {

const WeightedOp* find_row(const Node& node) {
  const WeightedOp* row = find_weighted_op(node);
  if (row == nullptr || row->form == WeightForm::kConvolution) return nullptr;
  return row->form != WeightForm::kProduct || node.is("aten.matmul") ? row : nullptr;
}

// Computes a value that depends on constants only; undefined otherwise.
at::Tensor evaluate(const Graph& graph, const Value* value) {
  if (const Tensor* constant = graph.find_constant(value)) return to_aten(*constant);
  Graph part;
  std::unordered_map<const Value*, Value*> map;
  const std::function<bool(const Value*)> copy = [&](const Value* wanted) {
    if (map.contains(wanted)) return true;
    if (const GraphInput* input = graph.find_input(wanted)) {
      const auto constant = graph.constants.find(input->fqn);
      if (graph.find_constant(wanted) == nullptr || constant == graph.constants.end()) return false;
      map[wanted] = part.add_input(*input, wanted->name(), wanted->kind(), wanted->meta);
      part.constants.emplace(input->fqn, constant->second);
      return true;
    }
    for (const Value* input : wanted->producer()->inputs())
      if (!copy(input)) return false;
    copy_node(*wanted->producer(), part, map);
    return true;
  };
  if (!copy(value)) return {};
  part.add_output({.value = map.at(value), .target = {}});
  const std::vector<c10::IValue> results = Interpreter(part).run({});
  return results.at(0).isTensor() ? results[0].toTensor() : at::Tensor();
}

at::Tensor numbers_of(const ChannelFactors& factors) {
  at::Tensor numbers = at::empty({static_cast<int64_t>(factors.exponents.size())}, at::kDouble);
  for (size_t i = 0; i < factors.exponents.size(); ++i)
    numbers.mutable_data_ptr<double>()[i] = std::ldexp(1.0, factors.exponents[i]);
  return numbers;
}

// The float program's weight after equalization and smoothing: makers divide by their factors,
// takers multiply.
at::Tensor scaled(at::Tensor weight, const Node& node, const WeightedOp& row, const Twins& twins) {
  const ChannelFactors own = channel_factors_of(node);
  const auto along = [&](const at::Tensor& factors, int64_t axis) {
    std::vector<int64_t> shape(static_cast<size_t>(weight.dim()), 1);
    shape[static_cast<size_t>(axis)] = -1;
    return factors.reshape(shape);
  };
  const auto fits = [&](const ChannelFactors& factors, int64_t axis) {
    return axis >= 0 && static_cast<int64_t>(factors.exponents.size()) == weight.size(axis);
  };
  if (!own.shape.empty() && fits(own, row.out_axis))
    weight = weight.div(along(numbers_of(own), row.out_axis));
  const Value* input = node.find_input(row.x);
  while (input != nullptr && twins.find(input) == nullptr && input->producer() != nullptr &&
         !input->producer()->inputs().empty())
    input = input->producer()->inputs().front();
  const Twin* source = input == nullptr ? nullptr : twins.find(input);
  if (source == nullptr || source->factors.shape.empty() || row.in_axis < 0 ||
      row.form == WeightForm::kTransposedConv)
    return weight;
  const int64_t groups = node.int_or("groups", 1);
  const at::Tensor factors = numbers_of(source->factors);
  if (groups == 1 && fits(source->factors, row.in_axis))
    return weight.mul(along(factors, row.in_axis));
  if (groups > 1 && factors.numel() == groups * weight.size(1)) {
    std::vector<int64_t> shape = {groups, 1, weight.size(1)};
    std::vector<int64_t> grouped = {groups, weight.size(0) / groups, weight.size(1)};
    for (int64_t dim = 2; dim < weight.dim(); ++dim) {
      shape.push_back(1);
      grouped.push_back(weight.size(dim));
    }
    return weight.reshape(grouped).mul(factors.reshape(shape)).reshape(weight.sizes());
  }
  return weight;
}

// Whether the value is computed from stored quantized data. REQUIRES: it depends on constants only.
bool is_stored_quantized(const Value& value) {
  const Node* node = value.producer();
  if (node == nullptr) return false;
  if (node->target().find("dequantize") != std::string::npos ||
      node->is("prims.convert_element_type") || node->is("aten._to_copy"))
    return true;
  const std::vector<Value*> inputs = node->inputs();
  return std::ranges::any_of(inputs,
                             [](const Value* input) { return is_stored_quantized(*input); });
}

WeightComparison compared(const Node& node, const WeightedOp& row, const at::Tensor& wanted,
                          const at::Tensor& found) {
  WeightComparison comparison{.name = node.name(),
                              .target = node.target(),
                              .axis = row.out_axis < 0 ? wanted.dim() - 1 : row.out_axis,
                              .error = compare_tensors(wanted, found)};
  const std::vector<ModuleFrame> stack = module_stack(node);
  if (!stack.empty()) comparison.module = stack.back().path;
  const auto rows_of = [&](const at::Tensor& weight) {
    return weight.to(at::kFloat).transpose(0, comparison.axis).flatten(1).contiguous();
  };
  const at::Tensor reference = rows_of(wanted), subject = rows_of(found);
  for (int64_t channel = 0; channel < reference.size(0); ++channel)
    comparison.sqnr_db.push_back(compare_tensors(reference[channel], subject[channel]).sqnr_db());
  const auto to_vector = [](const at::Tensor& numbers) {
    const at::Tensor own = numbers.contiguous();
    return std::vector<float>(own.const_data_ptr<float>(),
                              own.const_data_ptr<float>() + own.numel());
  };
  comparison.least = to_vector(reference.amin(1));
  comparison.greatest = to_vector(reference.amax(1));
  return comparison;
}

}  // namespace

std::vector<WeightComparison> compare_weights(const Graph& original, const Graph& subject) {
  const InFloat32 wide(original);
  const Graph& reference = wide.graph();
  const Twins twins = find_twins(reference, subject);
  const bool was_folded =
      std::ranges::any_of(twins.pairs, [](const Twin& twin) { return twin.members.size() > 1; });
  std::unique_ptr<Graph> folded;
  if (was_folded) {
    folded = clone(reference);
    fold_conv_bn(*folded);
  }
  const Graph& source = folded ? *folded : reference;
  std::vector<WeightComparison> comparisons;
  for (const Node* node : subject.nodes()) {
    const WeightedOp* row = find_row(*node);
    const Twin* twin = row == nullptr ? nullptr : twins.find(node->outputs().front());
    if (twin == nullptr) continue;
    const Node* original = nullptr;
    for (const std::string& member : twin->members) {
      const Node* candidate = source.find_node(member);
      if (candidate != nullptr && find_row(*candidate) == row) original = candidate;
    }
    const Value* weight = node->find_input(row->weight);
    const Value* wanted = original == nullptr ? nullptr : original->find_input(row->weight);
    if (weight == nullptr || wanted == nullptr || weight->producer() == nullptr) continue;
    const at::Tensor reference_data = evaluate(source, wanted), data = evaluate(subject, weight);
    if (!reference_data.defined() || !data.defined() || reference_data.sizes() != data.sizes() ||
        data.dim() < 2 || !is_stored_quantized(*weight))
      continue;
    comparisons.push_back(
        compared(*node, *row,
                 scaled(reference_data.to(at::kDouble), *node, *row, twins).to(at::kFloat), data));
  }
  return comparisons;
}

}  // namespace octet
