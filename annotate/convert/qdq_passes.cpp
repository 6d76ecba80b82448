// The clean-ups of convert: a dequantize per consumer, metadata on the new ops, constants stored
// quantized.
#include <algorithm>
#include <array>
#include <optional>

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include "annotate/convert/convert.h"
#include "annotate/graph/aliasing.h"
#include "annotate/graph/constant_subgraph.h"
#include "annotate/graph/qdq_nodes.h"
#include "core/base/error.h"
#include "core/interpreter/aten_bridge.h"
#include "core/interpreter/interpreter.h"
#include "core/passes/remove_dead.h"

namespace octet {
namespace {

bool has_specs(const Annotations& annotations, const Node* node) {
  const QuantizationAnnotation* annotation = annotations.find(node);
  return annotation != nullptr &&
         (!annotation->input_qspec_map.empty() || annotation->output_qspec.has_value());
}

std::vector<Node*> users_without_sizes(const Value& value) {
  std::vector<Node*> users;
  for (Node* user : value.users())
    if (!user->is("aten.sym_size")) users.push_back(user);
  return users;
}

// What convert inserts with a scale of its own.
bool is_inserted_quantize(const Node* node) {
  return is_quantize(node) ||
         (node != nullptr && node->target() == "torchao.quantize_affine.default");
}
bool is_inserted_dequantize(const Node* node) {
  return is_dequantize(node) ||
         (node != nullptr && node->target() == "torchao.dequantize_affine.default");
}

// The value at the other end of a chain of quantize and dequantize ops.
const Value* quantized_value(const Node* node) {
  const Value* value = nullptr;
  while (is_inserted_quantize(node) || is_inserted_dequantize(node)) {
    value = node->find_input("input");
    if (value == nullptr) return nullptr;
    node = value->producer();
  }
  return value;
}

}  // namespace

int duplicate_dequantize(Graph& graph, const Annotations& annotations, Compat compat) {
  std::optional<Writes> writes;
  if (compat == Compat::kNone) writes.emplace(graph);
  int copies = 0;
  for (Node* dequantize : graph.nodes()) {
    if (!is_dequantize(dequantize)) continue;
    const std::vector<Node*> users = users_without_sizes(*dequantize->output());
    if (users.size() + (dequantize->output()->is_output() ? 1 : 0) <= 1) continue;
    const Node* choose = find_choose_qparams(dequantize);
    if (choose != nullptr && choose->target() == "quantized_decomposed.choose_qparams.tensor")
      continue;
    Node* before = graph.find_next(*dequantize);
    for (Node* user : users) {
      if (!has_specs(annotations, user)) continue;
      if (writes && !writes->allow_copy(*dequantize->output(), {user}, dequantize)) continue;
      Node* copy = graph.insert(dequantize->target(), dequantize->arguments(), dequantize->name(),
                                dequantize->output()->meta, before);
      copy->metadata = dequantize->metadata;
      user->replace_input(dequantize->output(), copy->output());
      before = copy;
      ++copies;
    }
    if (dequantize->output()->is_unused()) graph.erase(*dequantize);
  }
  return copies;
}

void port_qdq_metadata(Graph& graph, const Annotations& annotations) {
  for (Node* node : graph.nodes()) {
    const QuantizationAnnotation* annotation = annotations.find(node);
    if (annotation == nullptr) continue;
    for (Value* input : node->inputs()) {
      Node* dequantize = input->producer();
      if (!is_inserted_dequantize(dequantize) ||
          annotation->find_input(quantized_value(dequantize)) == nullptr)
        continue;
      port_metadata(*dequantize, node->metadata);
      Node* choose = find_choose_qparams(dequantize);
      if (choose == nullptr) continue;
      port_metadata(*choose, node->metadata);
      port_metadata(*dequantize->find_input("input")->producer(), node->metadata);
    }
    if (!annotation->output_qspec || node->output_or_null() == nullptr) continue;
    const std::vector<Node*> users = users_without_sizes(*node->output());
    if (users.size() == 1 && is_inserted_quantize(users.front()))
      port_metadata(*users.front(), node->metadata);
  }
}

namespace {

// Computes each op on constants that `is_wanted` now.
int fold_constants(Graph& graph, bool (*is_wanted)(const Node*)) {
  const std::unordered_set<const Value*> constants = find_constant_values(graph);
  int folds = 0;
  int number = 0;
  for (Node* node : graph.nodes()) {
    if (!is_wanted(node)) continue;
    const std::vector<Value*> inputs = node->inputs();
    if (!std::all_of(inputs.begin(), inputs.end(),
                     [&](const Value* input) { return constants.contains(input); }))
      continue;
    const Graph part = extract_constant_part(graph, {node->output()});
    const std::vector<c10::IValue> results = Interpreter(part).run({});
    const Tensor quantized = from_aten(results.at(0).toTensor().contiguous());
    while (graph.constants.contains(fmt::format("_frozen_param{}", number))) ++number;
    Value* stored = graph.add_constant(fmt::format("_frozen_param{}", number++), quantized);
    graph.replace_uses(node->output(), stored);
    ++folds;
  }
  if (folds > 0) remove_dead(graph, DeadInputs::kRemove);
  return folds;
}

bool is_to_float16(const Node* node) {
  const Argument* dtype = node->target() == "quantized_decomposed.convert_element_type.no_fuse"
                              ? node->find_argument("dtype")
                              : nullptr;
  return dtype != nullptr && *dtype == Argument(DType::kFloat16);
}

}  // namespace

int fold_quantized_constants(Graph& graph) { return fold_constants(graph, is_inserted_quantize); }
int fold_float16_constants(Graph& graph) { return fold_constants(graph, is_to_float16); }

}  // namespace octet
