#include "tools/cli/common/graph_nodes.h"

#include <algorithm>
#include <string>
#include <vector>

#include "annotate/graph/opaque_parts.h"
#include "core/base/dtype.h"

namespace octet {
namespace {

using Json = nlohmann::ordered_json;

// Whether the op only converts a tensor to integers or back.
bool is_hidden(const Node& node) {
  const std::string& target = node.target();
  if (!target.starts_with("quantized_decomposed.") && !target.starts_with("torchao.")) return false;
  return target.find("quantize_") != std::string::npos ||
         target.find("choose_qparams") != std::string::npos ||
         target.find("convert_element_type") != std::string::npos;
}

// The value of the float program that this value corresponds to.
const Value* float_value(const Value* value) {
  while (value->producer() != nullptr && is_hidden(*value->producer()) &&
         !value->producer()->inputs().empty())
    value = value->producer()->inputs().front();
  return value;
}

Json sources_of(const Graph& graph, const std::vector<Value*>& values) {
  Json names = Json::array();
  for (const Value* input : values) {
    const Value* value = float_value(input);
    if (value->producer() != nullptr)
      names.push_back(value->producer()->name());
    else if (const GraphInput* from = graph.find_input(value);
             from != nullptr && from->kind == InputKind::kUserInput)
      names.push_back(value->name());
  }
  return names;
}

void put_type(const Value& value, Json& json) {
  if (!value.meta) return;
  json["dtype"] = short_name_of(value.meta->dtype);
  json["shape"] = value.meta->shape();
}

Json input_json(const Value& value) {
  Json json = {{"name", value.name()},
               {"target", "placeholder"},
               {"status", "input"},
               {"inputs", Json::array()}};
  put_type(value, json);
  return json;
}

Json op_json(const Graph& graph, const Node& node) {
  const std::vector<ModuleFrame> modules = module_stack(node);
  const std::vector<Value*> outputs = node.outputs();
  Json json = {{"name", node.name()},
               {"target", node.target()},
               {"status", "other"},
               {"module", modules.empty() ? "" : module_path(modules.back())},
               {"module_type", modules.empty() ? "" : modules.back().type},
               {"inputs", sources_of(graph, node.inputs())}};
  if (const auto trace = node.metadata.find("stack_trace"); trace != node.metadata.end())
    json["stack_trace"] = trace->second;
  json["outputs_program"] =
      std::ranges::any_of(outputs, [](const Value* value) { return value->is_output(); });
  if (!outputs.empty()) put_type(*outputs.front(), json);
  return json;
}

Json output_json(const Graph& graph) {
  std::vector<Value*> values;
  for (const GraphOutput& output : graph.outputs())
    if (output.kind == OutputKind::kUserOutput)
      for_each_value(output.value, [&](Value* value) { values.push_back(value); });
  return {{"name", "output"},
          {"target", "output"},
          {"status", "output"},
          {"inputs", sources_of(graph, values)}};
}

}  // namespace

Json graph_nodes(const Graph& graph) {
  Json nodes = Json::array();
  for (const GraphInput& input : graph.inputs())
    if (input.kind == InputKind::kUserInput && input.value != nullptr)
      nodes.push_back(input_json(*input.value));
  for (const Node* node : graph.nodes())
    if (!is_hidden(*node)) nodes.push_back(op_json(graph, *node));
  nodes.push_back(output_json(graph));
  return nodes;
}

}  // namespace octet
